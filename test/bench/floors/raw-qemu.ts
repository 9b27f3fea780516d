// A twin of a desktop's guest in a bare QEMU, driven over QMP: what a save and a restore cost without libvirt.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify } from '../../../scripts/testbed/processes.ts'
import { JsonSocket } from './json-socket.ts'

export interface RawQemu {
  /** Saves it to a file and ends QEMU; milliseconds. */
  save(): Promise<number>
  /** Starts a QEMU that reads the file, and waits until its guest agent answers. */
  restore(): Promise<Restored>
  /** Copies the saved memory to another file on the same disk and syncs it, with `cp`; milliseconds. */
  copy(): Promise<number>
  end(): Promise<void>
}

export interface Restored {
  /** Until the new process answers QMP. */
  startMs: number
  /** Until the guest agent answers and the clock is set. */
  allMs: number
}

/** What the running QEMU is reached by. */
interface Running {
  child: ChildProcess
  qmp: JsonSocket
  release: () => void
}

/** Boots a guest like the desktop's own, on a copy of its disk. */
export async function rawQemuOf(socketPath: string, desktopId: string, dir: string): Promise<RawQemu> {
  const id = crypto.randomUUID().slice(0, 8)
  const path = (name: string) => `${dir}/${id}.${name}`
  const files = ['qcow2', 'save', 'copy', 'qmp', 'qga'].map(path)
  copyFileSync(`${dir}/agent/disks/${desktopId}.qcow2`, path('qcow2'))
  const args = await argumentsLike(socketPath, desktopId, path)
  let now = await start(args, path('qmp'))
  await agentAnswers(path('qga'))
  return {
    save: async () => {
      const began = performance.now()
      await migrate(now.qmp, path('save'))
      await quit(now)
      return performance.now() - began
    },
    restore: async () => {
      const began = performance.now()
      now = await start([...args, '-incoming', `exec:cat ${path('save')}`], path('qmp'))
      const startMs = performance.now() - began
      await until(now.qmp, 'query-status', ({ status }) => status !== 'inmigrate')
      await now.qmp.ask('cont')
      await agentAnswers(path('qga'))
      return { startMs, allMs: performance.now() - began }
    },
    copy: async () => {
      const began = performance.now()
      await ended(spawn('/bin/sh', ['-c', `cp ${path('save')} ${path('copy')} && sync ${path('copy')}`]))
      return performance.now() - began
    },
    end: async () => {
      await quit(now)
      for (const file of files) rmSync(file, { force: true })
    },
  }
}

/** Kernel, disk, processor and memory as libvirt gave them to the desktop, and the port of the guest agent. */
async function argumentsLike(socketPath: string, desktopId: string, path: (name: string) => string): Promise<string[]> {
  const host = await LibvirtHost.open({ socketPath })
  const xml = await (await host.domains.lookup(desktopId))!.xml()
  host.close()
  const text = (tag: string) => new RegExp(`<${tag}[^>]*>([^<]*)</${tag}>`).exec(xml)![1]!
  return [
    ...[text('emulator'), '-nodefaults', '-display', 'none', '-accel', /<domain type='kvm'/.test(xml) ? 'kvm' : 'tcg'],
    ...[
      '-machine',
      /machine='([^']*)'/.exec(xml)![1]!,
      '-cpu',
      text('model'),
      '-m',
      `${Number(text('memory')) / 1024}M`,
    ],
    ...['-kernel', text('kernel'), '-initrd', text('initrd'), '-append', text('cmdline')],
    ...['-drive', `file=${path('qcow2')},if=none,id=disk`, '-device', 'virtio-blk-pci,drive=disk'],
    ...['-device', 'virtio-serial-pci', '-chardev', `socket,path=${path('qga')},server=on,wait=off,id=agent`],
    ...['-device', 'virtserialport,chardev=agent,name=org.qemu.guest_agent.0'],
    ...['-qmp', `unix:${path('qmp')},server=on,wait=off`],
  ]
}

async function start([command, ...args]: string[], socketPath: string): Promise<Running> {
  rmSync(socketPath, { force: true })
  const child = spawn(command!, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  const release = endWithUs(identify(child.pid!)!, 'SIGKILL')
  const qmp = await JsonSocket.open(socketPath)
  await qmp.next()
  await qmp.ask('qmp_capabilities')
  return { child, qmp, release }
}

async function migrate(qmp: JsonSocket, file: string): Promise<void> {
  await qmp.ask('stop')
  // QEMU's own limit is 1 GiB/s; libvirt lifts it, too.
  await qmp.ask('migrate-set-parameters', { 'max-bandwidth': 2 ** 40 })
  await qmp.ask('migrate', { uri: `exec:cat > ${file} && sync ${file}` })
  await until(qmp, 'query-migrate', ({ status }) => status === 'completed')
}

async function quit({ child, qmp, release }: Running): Promise<void> {
  const gone = ended(child)
  await qmp.ask('quit')
  await gone
  qmp.close()
  release()
}

/** Asks until the answer is so, with short pauses: a pause is part of what is measured. */
async function until(qmp: JsonSocket, command: string, isSo: (answer: { status?: string }) => boolean): Promise<void> {
  for (;;) {
    const answer = (await qmp.ask(command)) as { status?: string }
    if (isSo(answer)) return
    if (answer.status === 'failed') throw new Error(`${command}: ${JSON.stringify(answer)}`)
    await sleep(1)
  }
}

/** The guest's clock is set, too, as after each wake. */
async function agentAnswers(socketPath: string): Promise<void> {
  const agent = await JsonSocket.open(socketPath)
  // It waits in the port until the agent reads it.
  await agent.ask('guest-ping')
  await agent.ask('guest-set-time', { time: Date.now() * 1e6 })
  agent.close()
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
}

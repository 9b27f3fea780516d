// A twin of a desktop's guest, driven by bare libvirt calls: the floor that wakes and hibernations are measured against.
import { copyFileSync, rmSync } from 'node:fs'
import { sshSocketOf } from '@dormouse/agent/driver/libvirt/domain-xml.ts'
import { QemuGuestAgent } from '@dormouse/agent/guest-agent/agent.ts'
import { bringIn } from '@dormouse/agent/scripts/bring-in.ts'
import { SshKeys } from '@dormouse/agent/ssh/keys.ts'
import { type RawSsh, rawSsh } from '@dormouse/agent/testing/raw-ssh.ts'
import type { Desktop } from '@dormouse/client'
import { type Domain, LibvirtHost } from '@dormouse/node-libvirt'
import { ownMiB, qemuOf } from '../cpu.ts'

export interface RawGuest {
  /** Saves it; milliseconds. */
  save(): Promise<number>
  /** Restores it until its guest agent answers and its clock is set; milliseconds. */
  restore(): Promise<number>
  /** Resumes it, after it was suspended, until its guest agent answers and its clock is set; milliseconds. */
  resume(): Promise<number>
  /** Its SSH server, by the keys of the desktop that it was copied from. */
  ssh(): Promise<RawSsh>
  /** Destroys the domain, and boots it again until its guest agent answers; milliseconds of each. */
  destroyAndBoot(): Promise<{ destroyMs: number; bootMs: number }>
  /** What its QEMU holds of the host's memory. */
  memoryMiB(): number
  end(): Promise<void>
}

const twinXml = (xml: string, { desktopId, uuid, dir }: { desktopId: string; uuid: string; dir: string }): string =>
  xml
    .replace(/<name>.*<\/name>/, `<name>twin-${uuid}</name>`)
    .replace(/ id='\d+'/, '')
    .replaceAll(desktopId, uuid)
    .replace(/<metadata>[\s\S]*<\/metadata>/, '')
    .replaceAll(/<source mode='bind' path='[^']*\.ssh'\/>/g, `<source mode='bind' path='${dir}/twin.ssh'/>`)
    .replaceAll(/<source mode='bind' path='[^']*\.guest_agent\.0'\/>/g, "<source mode='bind'/>")
    .replaceAll(/<mac address='[^']*'\/>/g, '')

/** Boots a domain like the desktop's own, on a copy of its disk, under another name. */
export async function twinOf(socketPath: string, desktop: Desktop, dir: string): Promise<RawGuest> {
  const desktopId = desktop.id
  const host = await LibvirtHost.open({ socketPath })
  const original = (await host.domains.lookup(desktopId))!
  const uuid = crypto.randomUUID()
  const xml = twinXml(await original.xml(), { desktopId, uuid, dir })
  const disk = `${dir}/agent/disks/${uuid}.qcow2`
  // A disk that is written while it is copied would be torn.
  await desktop.hibernate()
  copyFileSync(`${dir}/agent/disks/${desktopId}.qcow2`, disk)
  await desktop.wake()
  const twin = await host.domains.createXml(xml)
  const image = `${dir}/${uuid}.save`
  const domain = () => host.domains.of({ uuid, name: twin.name })
  const answers = async () => {
    const agent = host.guestAgent(domain())
    for (;;) {
      const ok = await agent.command({ execute: 'guest-ping' }, { timeoutSecs: 1 }).then(
        () => true,
        () => false,
      )
      if (ok) return
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }
  const setTime = () => domain().setTime({ seconds: Math.floor(Date.now() / 1_000) })
  const timed = async (work: () => Promise<unknown>) => {
    const began = performance.now()
    await work()
    return performance.now() - began
  }
  await answers()
  return {
    save: () => timed(() => domain().save(image)),
    restore: () =>
      timed(async () => {
        await host.domains.restore(image)
        await answers()
        await setTime()
      }),
    resume: async () => {
      await domain().suspend()
      return timed(async () => {
        await domain().resume()
        await answers()
        await setTime()
      })
    },
    ssh: () => sshTo(host, domain(), { keysDir: `${dir}/agent/guest-keys`, desktopId }),
    destroyAndBoot: async () => {
      const destroyMs = await timed(() => domain().destroy())
      const bootMs = await timed(async () => {
        await host.domains.createXml(xml)
        await answers()
      })
      return { destroyMs, bootMs }
    },
    memoryMiB: () => ownMiB(qemuOf(twin.name)),
    end: async () => {
      await domain().destroy()
      host.close()
      for (const file of [image, disk]) rmSync(file, { force: true })
    },
  }
}

/** Its disk has the desktop's keys. It has booted, so that nothing serves its port yet. */
async function sshTo(
  host: LibvirtHost,
  domain: Domain,
  { keysDir, desktopId }: { keysDir: string; desktopId: string },
): Promise<RawSsh> {
  const keys = await new SshKeys(keysDir).read(desktopId)
  const socketPath = sshSocketOf(await domain.xml())
  if (!keys || !socketPath) throw new Error('the desktop has no SSH keys or no port')
  const agent = host.guestAgent(domain)
  await bringIn(new QemuGuestAgent((execute, args = {}) => agent.command({ execute, arguments: args })))
  return rawSsh(socketPath, keys)
}

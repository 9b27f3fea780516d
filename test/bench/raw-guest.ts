// A twin of a desktop's guest, driven by bare libvirt calls: the floor that wakes and hibernations are measured against.
import { copyFileSync, rmSync } from 'node:fs'
import { LibvirtHost } from '@dormouse/node-libvirt'

export interface RawGuest {
  /** Saves it; milliseconds. */
  save(): Promise<number>
  /** Restores it until its guest agent answers and its clock is set; milliseconds. */
  restore(): Promise<number>
  end(): Promise<void>
}

/** Boots a domain like the desktop's own, on a copy of its disk, under another name. */
export async function twinOf(socketPath: string, desktopId: string, dir: string): Promise<RawGuest> {
  const host = await LibvirtHost.open({ socketPath })
  const original = (await host.domains.lookup(desktopId))!
  const uuid = crypto.randomUUID()
  const disk = `${dir}/agent/disks/${uuid}.qcow2`
  copyFileSync(`${dir}/agent/disks/${desktopId}.qcow2`, disk)
  const xml = (await original.xml())
    .replace(/<name>.*<\/name>/, `<name>twin-${uuid}</name>`)
    .replace(/ id='\d+'/, '')
    .replaceAll(desktopId, uuid)
    .replace(/<metadata>[\s\S]*<\/metadata>/, '')
    .replaceAll(/<(source mode='bind' path='[^']*')\/>/g, "<source mode='bind'/>")
    .replaceAll(/<mac address='[^']*'\/>/g, '')
  const twin = await host.domains.createXml(xml)
  const image = `${dir}/${uuid}.save`
  const answers = async () => {
    const agent = host.guestAgent(host.domains.of({ uuid, name: twin.name }))
    for (;;) {
      const ok = await agent.command({ execute: 'guest-ping' }, { timeoutSecs: 1 }).then(
        () => true,
        () => false,
      )
      if (ok) return
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }
  const timed = async (work: () => Promise<unknown>) => {
    const began = performance.now()
    await work()
    return performance.now() - began
  }
  await answers()
  return {
    save: () => timed(() => host.domains.of({ uuid, name: twin.name }).save(image)),
    restore: () =>
      timed(async () => {
        await host.domains.restore(image)
        await answers()
        await host.domains.of({ uuid, name: twin.name }).setTime({ seconds: Math.floor(Date.now() / 1_000) })
      }),
    end: async () => {
      await host.domains.of({ uuid, name: twin.name }).destroy()
      host.close()
      for (const file of [image, disk]) rmSync(file, { force: true })
    },
  }
}

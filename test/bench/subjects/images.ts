// The fetch of an image by an agent, beside `curl` of the same file: as it comes, and with its digest and a sync.
import { ImageFetches, imageMiB } from '../floors/image-fetches.ts'
import { alternate, rowOf, type Subject } from '../subject.ts'

export const images: Subject = {
  name: 'images',
  what: `the fetch of an image of ${imageMiB} MiB over loopback, verified and synced, beside \`curl\``,
  hosts: 'simulated',
  seconds: { fixed: 5, perRound: 8 },
  run: async ({ rounds, folder }) => {
    await using fetches = await ImageFetches.start(folder)
    const floor = async () => ({ ...(await fetches.curl()), ...(await fetches.checked()) })
    const taken = await alternate(rounds, { floor, ours: () => fetches.agent() })
    const rate = { subject: 'images', unit: 'MiB/s', better: 'more', ratioKind: 'share', of: 'agent rate' } as const
    const used = { subject: 'images', unit: 'CPU s/GiB', better: 'less', ratioKind: 'multiple' } as const
    const [plain, checked] = ['`curl`', '`curl`, then `sha256sum` and `sync`']
    return [
      rowOf(taken, { ...rate, name: 'fetch of an image beside curl', floorOf: 'curl rate', floor: plain! }),
      rowOf(taken, {
        ...rate,
        name: 'fetch of an image beside curl, sha256sum and sync',
        floorOf: 'checked rate',
        floor: checked!,
      }),
      rowOf(taken, { ...used, name: 'CPU of a fetch', of: 'agent used', floorOf: 'checked used', floor: checked! }),
    ]
  },
}

// The header of a file of saved memory, which both drivers write the same way.

/** The first bytes. The hypervisor replaces `partialMagic` by `wholeMagic` when the file is whole. */
export const wholeMagic = 'LibvirtQemudSave'
export const partialMagic = 'LibvirtQemudPart'
export const headerBytes = 92

// Small files in the directory of a PNode, whose process is not trusted by those that start, watch and stop it: what stands in the place of such a file may
// be a link that leads to a file of the owner's, or something that never ends. Whole or old: written beside itself and moved into place.

import { constants } from "node:fs";
import { open, rename, rm, writeFile } from "node:fs/promises";

/** Larger ones are not ours. */
export const wholeFileBytesMax = 16 << 20;

/** Undefined where there is none; so is what is no file, or too long. */
export async function readWhole(path: string, bytesMax = wholeFileBytesMax): Promise<Uint8Array | undefined> {
  // Without waiting: a pipe that nobody writes to would keep whoever opens it.
  const file = await open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)).catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    },
  );
  try {
    const found = await file?.stat();
    return file && found?.isFile() && found.size <= bytesMax ? await file.readFile() : undefined;
  } finally {
    await file?.close();
  }
}

export async function writeWhole(path: string, content: Uint8Array | string, mode = 0o600): Promise<void> {
  const draft = `${path}.new`;
  // A link in its place is removed, not followed: `wx` opens nothing that is there already.
  await rm(draft, { force: true });
  await writeFile(draft, content, { mode, flag: "wx" });
  await rename(draft, path);
}

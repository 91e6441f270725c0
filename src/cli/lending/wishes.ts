// What an owner wishes of a machine that is lent, as a file in its folder: keys of the screen and `dcnr lend` write it, the
// process reads it. It stays, so that a service that was paused is paused after a restart too.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { readWhole, writeWhole } from "../../system/files/whole-file.ts";

export type Wish = "lend" | "pause" | "finish" | "leave";

export const wishes: readonly Wish[] = ["lend", "pause", "finish", "leave"];

export async function readWish(folder: string): Promise<Wish> {
  const found = await readWhole(pathIn(folder)).catch(() => undefined);
  const text = new TextDecoder().decode(found).trim();
  return wishes.find((wish) => wish === text) ?? "lend";
}

export async function writeWish(folder: string, wish: Wish): Promise<void> {
  if (wish === "lend") return rm(pathIn(folder), { force: true });
  await writeWhole(pathIn(folder), `${wish}\n`);
}

function pathIn(folder: string): string {
  return join(folder, "wish");
}

// What an owner wishes of a machine that is lent, as a file in its folder: keys of the screen and `dcnr lend` write it, the
// process reads it. It stays, so that a service that was paused is paused after a restart too.

import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

export type Wish = "lend" | "pause" | "finish" | "leave";

export const wishes: readonly Wish[] = ["lend", "pause", "finish", "leave"];

export async function readWish(folder: string): Promise<Wish> {
  const text = (await readFile(pathIn(folder), "utf8").catch(() => "")).trim();
  return wishes.find((wish) => wish === text) ?? "lend";
}

export async function writeWish(folder: string, wish: Wish): Promise<void> {
  if (wish === "lend") return rm(pathIn(folder), { force: true });
  const aside = `${pathIn(folder)}.${process.pid}`;
  await writeFile(aside, `${wish}\n`);
  await rename(aside, pathIn(folder));
}

function pathIn(folder: string): string {
  return join(folder, "wish");
}

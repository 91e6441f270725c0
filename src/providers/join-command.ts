// The one thing that providers start: `dcnr join`, with words that are built here and nowhere else. The link goes by the
// environment, never by the command line, which others on the machine can read.

import type { Label, Offer, Wanted } from "./provider.ts";

/** Read by `dcnr join` where no address is given. */
export const linkVariable = "DCNR_LINK";

/** Words after the program's name, all but its folder's. */
export function joinWords(label: Label, offer: Offer, wanted: Wanted, flags: readonly string[] = []): string[] {
  return [
    "join",
    "--wait",
    ...["--name", wanted.name, "--provider", label.provider, "--owner", label.provider],
    ...["--cpus", String(offer.cores), "--memory", `${offer.memoryBytes}B`],
    ...["--price", String(offer.pricePerHour), "--log", "json"],
    ...(offer.region === "" ? [] : ["--region", offer.region]),
    ...flags,
  ];
}

/** One word of a POSIX shell's command line, whatever is in it. */
export function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

export function shellWords(words: readonly string[]): string {
  return words.map(quoted).join(" ");
}

/** In which a name can be told from those of other networks: "dcnr.CLUSTER.PROVIDER.". */
export function labelPrefix({ cluster, provider }: Label): string {
  return `dcnr.${cluster}.${provider}.`;
}

// What the page shows stands in its address, after the "#": a page, and what of it. So a look can be sent to others, found in the
// history, and survives a reload. Pure; the browser's half is in use-address.ts.

export interface Address {
  /** "" for the first page. */
  readonly page: string;
  /** What of the page: a session, a study, the runs that are compared; "" for none in particular. */
  readonly item: string;
}

/** "#/runs/a,b": unknown things come to nothing worse than a page that is not there. */
export function parseAddress(hash: string): Address {
  const [page = "", ...rest] = hash.replace(/^#?\/?/, "").split("/");
  return { page: decoded(page), item: rest.map(decoded).join("/") };
}

export function formatAddress({ page, item }: Address): string {
  // Commas separate what is compared: they stay readable.
  const parts = [page, item].filter(Boolean).map((part) => encodeURIComponent(part).replaceAll("%2C", ","));
  return `#/${parts.join("/")}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

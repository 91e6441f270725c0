// Pages of lists: a token is the last name of the page before, so that pages stay right while items come and go.

const pageSizeDefault = 200;
const pageSizeMax = 1_000;

export function page<T>(
  items: readonly T[],
  nameOf: (item: T) => string,
  request: { readonly pageSize: number; readonly pageToken: string },
): { items: T[]; nextPageToken: string } {
  const size = Math.min(request.pageSize || pageSizeDefault, pageSizeMax);
  const named = items
    .map((item) => ({ item, name: nameOf(item) }))
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const rest = request.pageToken === "" ? named : named.filter(({ name }) => name > request.pageToken);
  const taken = rest.slice(0, size);
  return {
    items: taken.map(({ item }) => item),
    nextPageToken: rest.length > size ? (taken.at(-1)?.name ?? "") : "",
  };
}

/** For long lists in a fixed order: the token is a position. */
export function pageByPosition<T>(
  items: readonly T[],
  request: { readonly pageSize: number; readonly pageToken: string },
  sizeMax = 5_000,
): { items: T[]; nextPageToken: string } {
  const start = Math.max(0, Number.parseInt(request.pageToken || "0", 10) || 0);
  const end = start + Math.min(request.pageSize || sizeMax, sizeMax);
  return { items: items.slice(start, end), nextPageToken: end < items.length ? String(end) : "" };
}

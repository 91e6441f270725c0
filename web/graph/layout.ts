// Where VNodes stand: layers from left to right by the longest way from an input, ordered within a layer so that
// edges cross little. A network that is too long for the space it gets goes on in further bands, as text does.

export interface LayoutEdge {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  readonly kind: string;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface CardSize {
  readonly width: number;
  readonly height: number;
}

/** Pixels that the network gets. */
export interface Space {
  readonly width: number;
  readonly height: number;
  /** A phone's: cards come closer to each other. */
  readonly narrow: boolean;
}

export interface Layout {
  readonly card: CardSize;
  readonly positions: ReadonlyMap<string, Point>;
  readonly layers: ReadonlyMap<string, number>;
  /** In which band each stands. */
  readonly bands: ReadonlyMap<string, number>;
  /** From one band's top to the next one's. */
  readonly bandPitch: number;
  readonly width: number;
  readonly height: number;
}

/** Of a VNode that stands alone. */
export const vnodeCard: CardSize = { width: 172, height: 74 };
const columnGap = 64;
const columnGapNarrow = 34;
const rowGap = 20;
export const bandGap = 44;
/** One row is easiest to follow, as long as it can be read. */
const readableZoom = 0.75;
export const zoomMax = 1.25;
const sweeps = 4;

export function layOut(ids: readonly string[], edges: readonly LayoutEdge[], card: CardSize, space: Space): Layout {
  // Ties carry weights from one end to the other, often backwards: they do not order anything.
  const ordering = edges.filter((edge) => edge.kind !== "tie" && edge.from !== edge.to);
  const layers = layersOf(ids, ordering);
  const columns = orderedColumns(ids, layers, ordering);
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const bandHeight = tallest * card.height + (tallest - 1) * rowGap;
  const bandPitch = bandHeight + bandGap;
  const gap = space.narrow ? columnGapNarrow : columnGap;
  const extent = (perBand: number) => ({
    width: Math.min(columns.length, perBand) * (card.width + gap) - gap,
    height: Math.ceil(columns.length / perBand) * bandPitch - bandGap,
  });
  const perBand = columnsPerBand(columns.length, (wished) => zoomIn(space, extent(wished)));
  const positions = new Map<string, Point>();
  const bands = new Map<string, number>();
  columns.forEach((column, index) => {
    const band = Math.floor(index / perBand);
    const columnHeight = column.length * card.height + (column.length - 1) * rowGap;
    const top = band * bandPitch + (bandHeight - columnHeight) / 2;
    column.forEach((id, row) => {
      positions.set(id, { x: (index % perBand) * (card.width + gap), y: top + row * (card.height + rowGap) });
      bands.set(id, band);
    });
  });
  return { card, positions, layers, bands, bandPitch, ...extent(perBand) };
}

/** How large something is shown that has to fit. */
export function zoomIn(space: CardSize, { width, height }: CardSize): number {
  return Math.min(zoomMax, space.width / Math.max(1, width), space.height / Math.max(1, height));
}

function layersOf(ids: readonly string[], edges: readonly LayoutEdge[]): Map<string, number> {
  const layers = new Map(ids.map((id) => [id, 0]));
  const waiting = new Map(ids.map((id) => [id, 0]));
  const following = new Map<string, string[]>();
  for (const { from, to } of edges) {
    waiting.set(to, (waiting.get(to) ?? 0) + 1);
    following.set(from, [...(following.get(from) ?? []), to]);
  }
  const ready = ids.filter((id) => waiting.get(id) === 0);
  for (let id = ready.shift(); id !== undefined; id = ready.shift())
    for (const next of following.get(id) ?? []) {
      layers.set(next, Math.max(layers.get(next) ?? 0, (layers.get(id) ?? 0) + 1));
      const left = (waiting.get(next) ?? 1) - 1;
      waiting.set(next, left);
      if (left === 0) ready.push(next);
    }
  return layers;
}

/** Each layer's VNodes in the order of the mean position of their neighbours, forth and back a few times. */
function orderedColumns(
  ids: readonly string[],
  layers: ReadonlyMap<string, number>,
  edges: readonly LayoutEdge[],
): string[][] {
  const columns: string[][] = [];
  for (const id of ids) {
    const layer = layers.get(id) ?? 0;
    columns[layer] ??= [];
    columns[layer].push(id);
  }
  const dense = columns.filter((column) => column !== undefined);
  const rank = new Map<string, number>();
  const renumber = (column: string[]) => column.forEach((id, row) => void rank.set(id, row - (column.length - 1) / 2));
  dense.forEach(renumber);
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    const forth = sweep % 2 === 0;
    const means = neighbourMeans(edges, rank, forth);
    for (const column of forth ? dense : dense.toReversed()) {
      column.sort((a, b) => (means(a) ?? rank.get(a) ?? 0) - (means(b) ?? rank.get(b) ?? 0));
      renumber(column);
    }
  }
  return dense;
}

function neighbourMeans(edges: readonly LayoutEdge[], rank: ReadonlyMap<string, number>, forth: boolean) {
  const neighbours = new Map<string, string[]>();
  for (const { from, to } of edges) {
    const [self, other] = forth ? [to, from] : [from, to];
    neighbours.set(self, [...(neighbours.get(self) ?? []), other]);
  }
  return (id: string): number | undefined => {
    const others = neighbours.get(id);
    return others && others.reduce((sum, other) => sum + (rank.get(other) ?? 0), 0) / others.length;
  };
}

/** One row while it can be read; else as many columns as make the cards as large as can be, but never one below the other alone. */
function columnsPerBand(columns: number, zoomWith: (perBand: number) => number): number {
  if (columns <= 2 || zoomWith(columns) >= readableZoom) return Math.max(1, columns);
  let best = columns;
  for (let perBand = columns; perBand >= 2; perBand -= 1) if (zoomWith(perBand) > zoomWith(best)) best = perBand;
  return best;
}

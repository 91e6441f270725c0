// Where VNodes stand: layers from left to right by the longest way from an input, ordered within a layer so that
// edges cross little. A network that is much longer than it is wide goes on in further rows, as text does.

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

export interface Layout {
  readonly card: CardSize;
  readonly positions: ReadonlyMap<string, Point>;
  readonly layers: ReadonlyMap<string, number>;
  readonly width: number;
  readonly height: number;
}

/** Of a VNode that stands alone. */
export const vnodeCard: CardSize = { width: 172, height: 74 };
const columnGap = 64;
const rowGap = 20;
const bandGap = 44;
/** Width to height of the space that the graph gets. */
const aspect = 3;
const sweeps = 4;

export function layOut(ids: readonly string[], edges: readonly LayoutEdge[], card = vnodeCard): Layout {
  // Ties carry weights from one end to the other, often backwards: they do not order anything.
  const ordering = edges.filter((edge) => edge.kind !== "tie" && edge.from !== edge.to);
  const layers = layersOf(ids, ordering);
  const columns = orderedColumns(ids, layers, ordering);
  const tallest = Math.max(1, ...columns.map((column) => column.length));
  const bandHeight = tallest * card.height + (tallest - 1) * rowGap;
  const perBand = columnsPerBand(columns.length, bandHeight, card.width + columnGap);
  const positions = new Map<string, Point>();
  columns.forEach((column, index) => {
    const band = Math.floor(index / perBand);
    const columnHeight = column.length * card.height + (column.length - 1) * rowGap;
    const top = band * (bandHeight + bandGap) + (bandHeight - columnHeight) / 2;
    column.forEach((id, row) => {
      positions.set(id, { x: (index % perBand) * (card.width + columnGap), y: top + row * (card.height + rowGap) });
    });
  });
  const bands = Math.ceil(columns.length / perBand);
  return {
    card,
    positions,
    layers,
    width: Math.min(columns.length, perBand) * (card.width + columnGap) - columnGap,
    height: bands * (bandHeight + bandGap) - bandGap,
  };
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

/** As many columns as make the cards as large as can be in the space that there is; short networks stay in one row. */
function columnsPerBand(columns: number, bandHeight: number, columnWidth: number): number {
  if (columns * columnWidth <= 1_500) return Math.max(1, columns);
  let best = columns;
  let bestZoom = 0;
  for (let perBand = 3; perBand <= columns; perBand += 1) {
    const height = Math.ceil(columns / perBand) * (bandHeight + bandGap);
    const zoom = Math.min(aspect / (perBand * columnWidth), 1 / height);
    if (zoom <= bestZoom) continue;
    best = perBand;
    bestZoom = zoom;
  }
  return best;
}

/** Control points of an edge's curve, from the right side of one card to the left side of another. */
export function curveOf(from: Point, to: Point, card = vnodeCard): readonly [Point, Point, Point, Point] {
  const start = { x: from.x + card.width, y: from.y + card.height / 2 };
  const end = { x: to.x, y: to.y + card.height / 2 };
  const reach = Math.max(28, Math.min(140, Math.abs(end.x - start.x) / 2));
  // An edge that passes over a card of its own row is lifted above it.
  const skips = Math.abs(end.y - start.y) < 1 && end.x - start.x > card.width;
  const lift = skips ? card.height * 0.95 : 0;
  return [start, { x: start.x + reach, y: start.y - lift }, { x: end.x - reach, y: end.y - lift }, end];
}

export function pointOn([a, b, c, d]: readonly [Point, Point, Point, Point], t: number): Point {
  const u = 1 - t;
  const [wa, wb, wc, wd] = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
  return { x: wa * a.x + wb * b.x + wc * c.x + wd * d.x, y: wa * a.y + wb * b.y + wc * c.y + wd * d.y };
}

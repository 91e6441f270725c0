// The way of an edge from card to card: a curve to the right where its end stands further right; else, to another band or back,
// around the cards and through the free lane between two bands. Lines are drawn along it, and dots run on it.

import { bandGap, type Layout, type Point } from "./layout.ts";

/** A cubic curve: its ends, and between them what pulls it. */
type Piece = readonly [Point, Point, Point, Point];
export type Course = readonly Piece[];

/** How far a way around a card pulls away from it; three quarters of that are seen. */
const turn = 26;

/** Undefined where a card has no place. */
export function courseOf(layout: Layout, from: string, to: string): Course | undefined {
  const [source, target] = [layout.positions.get(from), layout.positions.get(to)];
  if (!source || !target) return undefined;
  const { card } = layout;
  const start = { x: source.x + card.width, y: source.y + card.height / 2 };
  const end = { x: target.x, y: target.y + card.height / 2 };
  if (end.x > start.x && layout.bands.get(from) === layout.bands.get(to)) return [ahead(start, end, card)];
  const lane = laneBetween(layout, layout.bands.get(from) ?? 0, layout.bands.get(to) ?? 0);
  return [around(start, lane, turn), straight({ x: start.x, y: lane }, { x: end.x, y: lane }), into(end, lane)];
}

function ahead(start: Point, end: Point, card: { readonly width: number; readonly height: number }): Piece {
  const reach = Math.max(28, Math.min(140, (end.x - start.x) / 2));
  // An edge that passes over a card of its own row is lifted above it.
  const skips = Math.abs(end.y - start.y) < 1 && end.x - start.x > card.width;
  const lift = skips ? card.height * 0.95 : 0;
  return [start, { x: start.x + reach, y: start.y - lift }, { x: end.x - reach, y: end.y - lift }, end];
}

/** Where no card stands: below the band that is left, or above it for what goes up. */
function laneBetween({ bandPitch }: Layout, from: number, to: number): number {
  return (to < from ? from : from + 1) * bandPitch - bandGap / 2;
}

function around(from: Point, lane: number, pull: number): Piece {
  const x = from.x + pull;
  return [from, { x, y: from.y }, { x, y: lane }, { x: from.x, y: lane }];
}

function into(end: Point, lane: number): Piece {
  const [a, b, c, d] = around(end, lane, -turn);
  return [d, c, b, a];
}

function straight(from: Point, to: Point): Piece {
  const third = (to.x - from.x) / 3;
  return [from, { x: from.x + third, y: from.y }, { x: to.x - third, y: to.y }, to];
}

/** `t` from 0 to 1, at about the same pace everywhere. */
export function pointOn(course: Course, t: number): Point {
  if (course.length === 1) return at(course[0] as Piece, t);
  const lengths = course.map(([a, , , d]) => Math.hypot(d.x - a.x, d.y - a.y));
  let left = t * lengths.reduce((sum, length) => sum + length, 0);
  for (const [index, piece] of course.entries()) {
    const length = lengths[index] ?? 0;
    if (left <= length || index === course.length - 1) return at(piece, length === 0 ? 0 : Math.min(1, left / length));
    left -= length;
  }
  throw new RangeError("a course has at least one piece");
}

function at([a, b, c, d]: Piece, t: number): Point {
  const u = 1 - t;
  const [wa, wb, wc, wd] = [u * u * u, 3 * u * u * t, 3 * u * t * t, t * t * t];
  return { x: wa * a.x + wb * b.x + wc * c.x + wd * d.x, y: wa * a.y + wb * b.y + wc * c.y + wd * d.y };
}

/** As SVG writes it. */
export function pathOf(course: Course): string {
  const start = course[0]?.[0];
  return `M${start?.x} ${start?.y}${course.map(([, b, c, d]) => `C${b.x} ${b.y} ${c.x} ${c.y} ${d.x} ${d.y}`).join("")}`;
}

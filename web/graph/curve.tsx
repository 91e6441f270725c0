// An edge: a quiet curve between two cards; a tie, which carries weights, is dashed; one that stands for many is wider.

import type { EdgeProps } from "@xyflow/react";
import { memo } from "react";
import { type CardSize, curveOf, type Point } from "./layout.ts";

export interface CurveData extends Record<string, unknown> {
  readonly from: Point;
  readonly to: Point;
  readonly card: CardSize;
  readonly kind: string;
  readonly count: number;
}

export const Curve = memo(function Curve({ data }: EdgeProps) {
  const { from, to, card, kind, count } = data as CurveData;
  const [a, b, c, d] = curveOf(from, to, card);
  return (
    <path
      className={kind === "tie" ? "curve curve-tie" : "curve"}
      strokeWidth={Math.min(5, 1.5 + Math.log2(Math.max(1, count)))}
      d={`M${a.x} ${a.y}C${b.x} ${b.y} ${c.x} ${c.y} ${d.x} ${d.y}`}
    />
  );
});

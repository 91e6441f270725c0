// An edge: a quiet curve between two cards; a tie, which carries weights, is dashed.

import type { EdgeProps } from "@xyflow/react";
import { memo } from "react";
import { curveOf, type Point } from "./layout.ts";

export interface CurveData extends Record<string, unknown> {
  readonly from: Point;
  readonly to: Point;
  readonly kind: string;
}

export const Curve = memo(function Curve({ data }: EdgeProps) {
  const { from, to, kind } = data as CurveData;
  const [a, b, c, d] = curveOf(from, to);
  return (
    <path
      className={kind === "tie" ? "curve curve-tie" : "curve"}
      d={`M${a.x} ${a.y}C${b.x} ${b.y} ${c.x} ${c.y} ${d.x} ${d.y}`}
    />
  );
});

// An edge: a quiet line between two cards; a tie, which carries weights, is dashed; one that stands for many is wider.

import type { EdgeProps } from "@xyflow/react";
import { memo } from "react";

export interface CurveData extends Record<string, unknown> {
  readonly path: string;
  readonly kind: string;
  readonly count: number;
}

const widthMax = 3.5;

export const Curve = memo(function Curve({ data }: EdgeProps) {
  const { path, kind, count } = data as CurveData;
  return (
    <path
      className={kind === "tie" ? "curve curve-tie" : "curve"}
      strokeWidth={Math.min(widthMax, 1.5 + Math.log2(Math.max(1, count)) / 2)}
      d={path}
    />
  );
});

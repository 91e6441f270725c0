// Messages on their way: dots run along the edges while steps advance, activations forth, gradients back.
// One canvas over the graph: two hundred animated elements would cost more than the whole page.

import { useStoreApi } from "@xyflow/react";
import { useEffect, useRef } from "react";
import { useLiveParts } from "../live/hooks.ts";
import { vnodeKey } from "../live/views.ts";
import { useThemeVersion } from "../parts/theme.tsx";
import { courseOf, pointOn } from "./course.ts";
import type { Layout, LayoutEdge } from "./layout.ts";

/** After the last step that was seen, dots go on this long. */
const activeMs = 1_800;
const travelMs = 1_300;
/** Each layer's dots are this much of a journey behind the layer before: a wave from left to right. */
const layerShift = 0.31;

interface DotsProps {
  readonly session: string;
  readonly edges: readonly LayoutEdge[];
  readonly layout: Layout;
  /** The VNodes of each card. */
  readonly members: ReadonlyMap<string, readonly string[]>;
}

export function Dots({ session, edges, layout, members }: DotsProps) {
  const canvasRef = useRef<HTMLCanvasElement>(null);
  const flow = useStoreApi();
  const { store } = useLiveParts();
  const theme = useThemeVersion();
  // biome-ignore lint/correctness/useExhaustiveDependencies: another theme, another colour
  useEffect(() => {
    const canvas = canvasRef.current;
    const context = canvas?.getContext("2d");
    if (!canvas || !context || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const tracks = edges.flatMap(({ from, to, kind }) => {
      const course = courseOf(layout, from, to);
      if (!course || kind === "tie") return [];
      const shift = 1 - (((layout.layers.get(from) ?? 0) * layerShift) % 1);
      const keys = [from, to].flatMap((card) => members.get(card) ?? []).map((vnode) => vnodeKey(session, vnode));
      return [{ course, shift, keys }];
    });
    const isActive = (key: string, nowMs: number) => nowMs - (store.advancedAtMs.get(key) ?? -activeMs) < activeMs;
    let frame = 0;
    let visible = true;
    let blank = true;
    let colour = "";
    const draw = (nowMs: number) => {
      const ratio = Math.min(2, devicePixelRatio);
      const [width, height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
      if (canvas.width !== width) canvas.width = width;
      if (canvas.height !== height) canvas.height = height;
      const moving = tracks.filter(({ keys }) => keys.some((key) => isActive(key, nowMs)));
      if (!blank) context.clearRect(0, 0, width, height);
      // Asked for once per run of dots: asking makes the browser compute styles.
      if (blank) colour = getComputedStyle(canvas).color;
      blank = moving.length === 0;
      frame = blank || !visible ? 0 : requestAnimationFrame(draw);
      if (blank) return;
      const [x, y, zoom] = flow.getState().transform;
      const dots = (back: boolean, radius: number) => {
        context.beginPath();
        for (const { course, shift } of moving) {
          const t = (nowMs / travelMs + shift + (back ? 0.5 : 0)) % 1;
          const at = pointOn(course, back ? 1 - t : t);
          const [px, py] = [(at.x * zoom + x) * ratio, (at.y * zoom + y) * ratio];
          context.moveTo(px + radius, py);
          context.arc(px, py, radius, 0, 2 * Math.PI);
        }
      };
      const radius = Math.max(1.6, Math.min(4.2, 4 * zoom)) * ratio;
      context.fillStyle = colour;
      dots(false, radius);
      context.fill();
      context.lineWidth = Math.max(1, radius * 0.4);
      context.strokeStyle = colour;
      dots(true, radius * 0.75);
      context.stroke();
    };
    const wake = () => {
      if (frame === 0 && visible) frame = requestAnimationFrame(draw);
    };
    const watcher = new IntersectionObserver(([entry]) => {
      visible = entry?.isIntersecting ?? true;
      wake();
    });
    watcher.observe(canvas);
    const forget = store.subscribe(wake);
    return () => {
      forget();
      watcher.disconnect();
      cancelAnimationFrame(frame);
    };
  }, [session, edges, layout, members, store, flow, theme]);
  return <canvas ref={canvasRef} className="dots" />;
}

// How much room the graph has: its frame where that has a height of its own; on a phone its width decides, and the frame becomes as
// high as the network needs to be read, within what the screen shows at once.

import { type RefObject, useLayoutEffect, useState } from "react";
import { type Layout, type Space, zoomIn } from "./layout.ts";

/** Kept free around the network; the buttons stand below it, not on it. */
export const margin = { top: 16, bottom: 52 } as const;
export const sideMargin = (narrow: boolean) => (narrow ? 18 : 24);
const heightMin = 200;
/** Less wide is a phone. */
const narrowPixels = 560;
/** Of a phone's screen: what stands above and below the graph stays in reach of a finger. */
const screenShare = 0.7;

/** Undefined until the frame was measured. */
export function useSpace(frame: RefObject<HTMLElement | null>): Space | undefined {
  const [space, setSpace] = useState<Space>();
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = () => {
      const { clientWidth, clientHeight } = element;
      const narrow = clientWidth < narrowPixels;
      const height = narrow ? Math.round(innerHeight * screenShare) : clientHeight;
      const next = { width: clientWidth - 2 * sideMargin(narrow), height: height - margin.top - margin.bottom, narrow };
      // A phone's screen grows and shrinks with its address line: nothing is arranged anew for that.
      setSpace((before) => (before?.width === next.width && (narrow || before.height === next.height) ? before : next));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [frame]);
  return space;
}

/** Undefined where the frame keeps the height that its styles give it. */
export function frameHeight(space: Space, layout: Layout): number | undefined {
  if (!space.narrow) return undefined;
  return Math.max(heightMin, Math.ceil(layout.height * zoomIn(space, layout)) + margin.top + margin.bottom);
}

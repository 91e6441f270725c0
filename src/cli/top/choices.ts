// What keys do in `dcnr top`: scroll, filter, end.

import type { Choices } from "./view.ts";

export const noChoices: Choices = { filter: "", typing: false, offset: 0 };
const pageRows = 10;

/** Undefined ends it. */
export function afterKey(before: Choices, key: string, machines: number): Choices | undefined {
  if (key === "interrupt") return undefined;
  if (before.typing) return typed(before, key);
  const move = (by: number) => ({ ...before, offset: Math.max(0, Math.min(machines - 1, before.offset + by)) });
  switch (key) {
    case "q":
      return undefined;
    case "/":
      return { ...before, typing: true, filter: "", offset: 0 };
    case "escape":
      return noChoices;
    case "up":
      return move(-1);
    case "down":
      return move(1);
    case "page up":
      return move(-pageRows);
    case "page down":
      return move(pageRows);
    case "home":
      return move(-machines);
    case "end":
      return move(machines);
    default:
      return before;
  }
}

function typed(before: Choices, key: string): Choices {
  if (key === "enter") return { ...before, typing: false };
  if (key === "escape") return noChoices;
  if (key === "backspace") return { ...before, filter: before.filter.slice(0, -1) };
  return key.length <= 2 ? { ...before, filter: before.filter + key } : before;
}

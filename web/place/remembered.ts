// A choice that this device remembers: how curves are drawn, how the graph is grouped. Nothing that matters to others.

import { useState } from "react";

const prefix = "dcnr-choice-";

/** `isValid` guards what a former version may have left. */
export function useRemembered<T extends string | number | boolean>(
  name: string,
  usual: T,
  isValid: (value: unknown) => value is T,
): [T, (value: T) => void] {
  const [value, setValue] = useState<T>(() => stored(name, isValid) ?? usual);
  const change = (next: T) => {
    setValue(next);
    try {
      localStorage.setItem(prefix + name, JSON.stringify(next));
    } catch {
      // Private windows keep nothing; the choice lasts as long as the page.
    }
  };
  return [value, change];
}

function stored<T>(name: string, isValid: (value: unknown) => value is T): T | undefined {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(prefix + name) ?? "null");
    return isValid(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

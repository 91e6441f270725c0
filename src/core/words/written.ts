// A value that a stranger wrote, in a sentence.

const lengthMax = 80;

/** Not String(): that fails for an object with a field called toString, which any JSON may hold. */
export function written(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "nothing");
  return text.slice(0, lengthMax);
}

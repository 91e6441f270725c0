// "1 PNode", "3 PNodes": numbers with what they count, as people say it.

export function plural(amount: number, noun: string): string {
  return `${amount.toLocaleString("en")} ${noun}${amount === 1 ? "" : "s"}`;
}

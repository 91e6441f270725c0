// Just enough Markdown for tests of the documentation: code blocks, relative links, headings.

import { readFileSync } from "node:fs";

export interface CodeBlock {
  /** What follows the fence: "sh", "sh stays", "yaml". */
  readonly info: string;
  readonly code: string;
  /** From a comment right after the block: `<!-- expect: REGEX -->`. */
  readonly expect?: string;
  /** Why no test follows it, from a comment right after the block: `<!-- not walked: WHY -->`. */
  readonly notWalked?: string;
}

export function codeBlocks(file: string): CodeBlock[] {
  const text = readFileSync(file, "utf8");
  const blocks = text.matchAll(/^```([^\n]*)\n([\s\S]*?)\n```\n(?:<!-- expect: (.*) -->|<!-- not walked: (.*) -->)?/gm);
  return [...blocks].map(([, info = "", code = "", expect, notWalked]) => ({
    ...{ info, code },
    ...(expect ? { expect } : {}),
    ...(notWalked ? { notWalked } : {}),
  }));
}

/** Relative ones only: the others need a network. */
export function linksOf(file: string): string[] {
  const text = withoutCode(readFileSync(file, "utf8"));
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = ""]) => link);
  return links.filter((link) => !/^[a-z]+:/.test(link)).map(decodeURIComponent);
}

/** As GitHub makes them. */
export function headingAnchors(file: string): Set<string> {
  const headings = withoutCode(readFileSync(file, "utf8")).matchAll(/^#+ (.+)$/gm);
  return new Set(
    [...headings].map(([, title = ""]) =>
      title
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, "").replace(/`[^`\n]*`/g, "");
}

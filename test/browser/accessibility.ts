// axe over the whole page, in the theme it has now.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

const source = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Sentences about what is wrong; empty if nothing is. */
export async function accessibilityFaults(page: Page): Promise<string[]> {
  // The page's policy lets no script in but its own; the debugger may.
  await page.evaluate(source);
  return page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: AxeViolation[] }> } };
    interface AxeViolation {
      readonly id: string;
      readonly help: string;
      readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
    }
    const { violations } = await axe.run();
    return violations.map(
      ({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html.slice(0, 200)} ${nodes[0]?.failureSummary ?? ""}`,
    );
  });
}

/** What sticks out of the screen or of its panel, by its text. */
export function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const cut = Array.from(document.querySelectorAll(".panel button, .panel input, .panel select, .banner button"));
    const names = cut
      // Tables scroll by themselves: what is in them is reached that way.
      .filter((element) => !element.closest(".table"))
      .filter((element) => {
        const edge = element.closest(".panel, .banner")?.getBoundingClientRect().right ?? innerWidth;
        return element.getBoundingClientRect().right > edge;
      })
      .map((element) => element.getAttribute("aria-label") ?? element.textContent ?? "");
    return document.documentElement.scrollWidth > innerWidth ? ["the page", ...names] : names;
  });
}

// The pages, each with its address and its title: whoever adds one adds a line here.

import type { ReactNode } from "react";
import { Credits } from "./credits/credits.tsx";
import { Jobs } from "./jobs/jobs.tsx";
import { Guarded } from "./parts/guarded.tsx";
import { Report } from "./report/report.tsx";
import { Runs } from "./runs/runs.tsx";
import { Studies } from "./studies/studies.tsx";
import { Training } from "./training/training.tsx";
import { Trust } from "./trust/trust.tsx";

export interface Page {
  /** In the address; "" is where one arrives, with "sessions" for one of them. */
  readonly path: string;
  readonly title: string;
  readonly show: (item: string) => ReactNode;
}

/** One panel that fills the page. */
function whole(path: string, title: string, show: (item: string) => ReactNode): Page {
  return {
    path,
    title,
    show: (item) => (
      <Guarded id={path} title={title} of={item}>
        {show(item)}
      </Guarded>
    ),
  };
}

export const pages: readonly Page[] = [
  { path: "", title: "Training", show: (item) => <Training session={item} /> },
  whole("runs", "Runs", (item) => <Runs chosen={item} />),
  whole("jobs", "Jobs", () => <Jobs />),
  whole("studies", "Studies", (item) => <Studies chosen={item} />),
  whole("report", "Availability", () => <Report />),
  whole("trust", "Trust", () => <Trust />),
  whole("credits", "Credits", () => <Credits />),
];

export function pageAt(path: string): Page | undefined {
  return pages.find((page) => page.path === (path === "sessions" ? "" : path));
}

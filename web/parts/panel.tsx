// A titled region of the page.

import type { ReactNode } from "react";

interface PanelProps {
  readonly id: string;
  readonly title: string;
  /** A quiet remark beside the title. */
  readonly aside?: ReactNode;
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

export function Panel({ id, title, aside, actions, children }: PanelProps) {
  return (
    <section className="panel" id={id} aria-labelledby={`${id}-title`}>
      <header className="panel-head">
        <h2 id={`${id}-title`}>{title}</h2>
        {aside && <span className="aside">{aside}</span>}
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

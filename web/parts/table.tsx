// A table of things that people compare: sortable by a press on its head, readable without a pointer, empty in words. On a phone each
// row is a list of its own, since columns beyond the edge are not found.

import { type ReactNode, useState } from "react";

export interface Column<T> {
  readonly title: string;
  readonly cell: (row: T) => ReactNode;
  /** By what it is sorted; without it, it is not. */
  readonly by?: (row: T) => number | string;
  readonly align?: "right";
}

interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  readonly isChosen?: (row: T) => boolean;
}

interface Order {
  readonly title: string;
  readonly falls: boolean;
}

export function Table<T>({ label, columns, rows, keyOf, isChosen }: TableProps<T>) {
  const [order, setOrder] = useState<Order>();
  const by = columns.find(({ title }) => title === order?.title)?.by;
  const sorted = by && order ? rows.toSorted((a, b) => (order.falls ? -1 : 1) * compare(by(a), by(b))) : rows;
  const press = (title: string) =>
    setOrder(order?.title === title ? (order.falls ? undefined : { title, falls: true }) : { title, falls: false });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls can be reached without a pointer.
    <section className="table rows" aria-label={`${label}, a table`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            {columns.map(({ title, by: sorts, align }) => (
              <th
                key={title}
                scope="col"
                data-align={align}
                aria-sort={order?.title === title ? (order.falls ? "descending" : "ascending") : undefined}
              >
                {sorts ? (
                  <button type="button" className="quiet" onClick={() => press(title)}>
                    {title}
                    <span aria-hidden="true">{order?.title === title ? (order.falls ? " ↓" : " ↑") : ""}</span>
                  </button>
                ) : (
                  title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted.map((row) => (
            <tr key={keyOf(row)} data-row={keyOf(row)} data-chosen={isChosen?.(row) || undefined}>
              {columns.map(({ title, cell, align }) => (
                <td key={title} data-title={title} data-align={align}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

const naming = new Intl.Collator("en", { numeric: true });

function compare(a: number | string, b: number | string): number {
  return typeof a === "number" && typeof b === "number" ? a - b : naming.compare(String(a), String(b));
}

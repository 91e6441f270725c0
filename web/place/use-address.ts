// The address as React sees it, and the title that goes with it.

import { useEffect, useSyncExternalStore } from "react";
import { type Address, formatAddress, parseAddress } from "./address.ts";

let seen = { hash: "", address: parseAddress("") };
const listeners = new Set<() => void>();
addEventListener("hashchange", tell);

function tell(): void {
  for (const listener of listeners) listener();
}

function now(): Address {
  if (seen.hash !== location.hash) seen = { hash: location.hash, address: parseAddress(location.hash) };
  return seen.address;
}

export function useAddress(): Address {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, now);
}

/** Goes there; "back" leads to where one was. */
export function goTo(address: Address): void {
  location.hash = formatAddress(address);
}

/** The same look with its name: nothing that "back" should lead to. */
export function settleAt(address: Address): void {
  history.replaceState(history.state, "", formatAddress(address));
  tell();
}

export function useTitle(text: string): void {
  useEffect(() => {
    document.title = text ? `${text} · DCNR` : "DCNR";
  }, [text]);
}

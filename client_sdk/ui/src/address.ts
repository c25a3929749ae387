// Search and filters are part of the address: every view has an address to share.

import { useLocation, useSearchParams } from "wouter-preact";

export function useFilter(name: string): [string, (value: string) => void] {
  const [query, setQuery] = useSearchParams();
  const set = (value: string) =>
    setQuery(
      (old) => {
        const next = new URLSearchParams(old);
        if (value) next.set(name, value);
        else next.delete(name);
        return next;
      },
      { replace: true },
    );
  return [query.get(name) ?? "", set];
}

/** What a colleague runs to see this view with credentials of their own. */
export function useCommand(): string {
  const [path] = useLocation();
  const [query] = useSearchParams();
  const asked = query.toString();
  const whole = asked ? `${path}?${asked}` : path;
  return `slotq ui '${whole.replaceAll("'", "%27")}'`;
}

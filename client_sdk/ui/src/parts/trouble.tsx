import type { Live } from "../live";

/** Why a view is not up to date. What is shown stays. */
export function Trouble({ of }: { of: Live<unknown>[] }) {
  const found = of.find((live) => live.trouble)?.trouble;
  return (
    <p class="trouble" role="status" hidden={!found}>
      {found?.message}
    </p>
  );
}

import { startTransition, useOptimistic } from "react";
import { type NavigateOptions, useNavigate, useSearchParams } from "react-router";

export type Say = (values: Record<string, string>, options?: NavigateOptions) => void;

const INSTEAD: NavigateOptions = { replace: true };

/** What the address says is shown, so that a link shows the same; and how to have it say more. An empty value is not said. */
export function useAddress(): [said: URLSearchParams, say: Say] {
  const [said, put] = useParameters();
  const say: Say = (values, options) => {
    const next = new URLSearchParams(said);
    for (const [name, value] of Object.entries(values)) {
      if (value) next.set(name, value);
      else next.delete(name);
    }
    put(next, options);
  };
  return [said, say];
}

/**
 * All that the address says. The router follows in a transition: what was put is said at once all the same, or an input would lose what is typed
 * meanwhile, and a choice the one before it.
 */
export function useParameters(): [said: URLSearchParams, put: (next: URLSearchParams, options?: NavigateOptions) => void] {
  const [arrived] = useSearchParams();
  const [said, expect] = useOptimistic(arrived);
  const go = useNavigate();
  const put = (next: URLSearchParams, options = INSTEAD) =>
    startTransition(async () => {
      expect(next);
      await go(`?${next}`, options);
    });
  return [said, put];
}

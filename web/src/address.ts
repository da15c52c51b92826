import { useSearchParams } from "react-router";

export type Say = (values: Record<string, string>, options?: { replace: boolean }) => void;

/** What the address says is shown, so that a link shows the same; and how to have it say more. An empty value is not said. */
export function useAddress(): [said: URLSearchParams, say: Say] {
  const [said, setSaid] = useSearchParams();
  const say: Say = (values, options = { replace: true }) =>
    setSaid((before) => {
      for (const [name, value] of Object.entries(values)) {
        if (value) before.set(name, value);
        else before.delete(name);
      }
      return before;
    }, options);
  return [said, say];
}

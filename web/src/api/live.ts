import { type QueryClient, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { answered } from "./reach";

/** What a server-sent event of a kind makes worth reading again. */
const TOUCHED: Record<string, string[]> = {
  plan: ["plans", "fleets", "status", "diff", "apps"],
  fleet: ["fleets", "status", "plans", "apps"],
  instance: ["status", "diff"],
  alert: ["alerts"],
  budget: ["budgets"],
  demand: ["demand"],
  token: ["tokens"],
  model: ["models"],
  project: ["projects"],
  operation: ["operations"],
  offers: ["offers", "markets"],
  offer: ["offers", "markets"],
};
const GATHER_MS = 400;

type Listener = (event: MessageEvent<string>) => void;

/** Follows a stream while the page is looked at: a browser has only six connections for all its tabs. */
function follow(path: string, listeners: Record<string, Listener>, tell: (open: boolean) => void, again: () => void) {
  let source: EventSource | undefined;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let hidden = false;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(path);
    source.onopen = () => {
      tell(true);
      answered();
      if (hidden) again();
      hidden = false;
    };
    source.onerror = () => {
      tell(false);
      // A browser gives up where the answer was a refusal; the session may be another by then.
      if (source?.readyState === EventSource.CLOSED) {
        source = undefined;
        retry = setTimeout(open, 5_000);
      }
    };
    for (const [kind, listener] of Object.entries(listeners)) source.addEventListener(kind, listener as EventListener);
  };
  const close = () => {
    clearTimeout(retry);
    source?.close();
    source = undefined;
  };
  const look = () => {
    if (document.hidden) {
      hidden = true;
      close();
    } else open();
  };
  document.addEventListener("visibilitychange", look);
  open();
  return () => {
    document.removeEventListener("visibilitychange", look);
    close();
  };
}

function gatherer(client: QueryClient) {
  const waiting = new Set<string>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  return (keys: string[]) => {
    for (const key of keys) waiting.add(key);
    timer ??= setTimeout(() => {
      timer = undefined;
      const now = [...waiting];
      waiting.clear();
      void client.invalidateQueries({ predicate: (query) => now.includes(String(query.queryKey[0])) });
    }, GATHER_MS);
  };
}

/** Reads again what events say has changed. True while the stream is open. */
export function useLiveEvents(): boolean {
  const client = useQueryClient();
  const [open, setOpen] = useState(false);
  useEffect(() => {
    const touch = gatherer(client);
    return follow(
      "/api/v1/events:follow",
      {
        event: (message) => {
          const { kind } = JSON.parse(message.data) as { kind: string };
          touch(["events", ...(TOUCHED[kind.split(".")[0] ?? ""] ?? [])]);
        },
      },
      setOpen,
      () => void client.invalidateQueries(),
    );
  }, [client]);
  return open;
}

export type Transition = { instance_id: string; to_state: string; sequence: number };
export type Load = { instance: string; running: number; waiting: number; kv_used: number | null };

/** Steps of instances and how busy they are, as they happen. The callbacks must not change between renders. */
export function useLiveInstances(onTransition: (step: Transition) => void, onLoad: (load: Load) => void): boolean {
  const client = useQueryClient();
  const [open, setOpen] = useState(false);
  useEffect(
    () =>
      follow(
        "/api/v1/instances:follow",
        {
          transition: (message) => onTransition(JSON.parse(message.data)),
          load: (message) => onLoad(JSON.parse(message.data)),
        },
        setOpen,
        () => void client.invalidateQueries({ queryKey: ["instances"] }),
      ),
    [client, onTransition, onLoad],
  );
  return open;
}

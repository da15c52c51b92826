import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useRef } from "react";
import { api, got, type Schemas } from "@/api/client";
import { type Load, type Transition, useLiveInstances } from "@/api/live";
import { instances } from "@/api/queries";

type Instance = Schemas["InstanceView"];
const GATHER_MS = 500;

/** All that live, as they are now: one that takes a step is read again by itself, its load is put in as it is told. */
export function useInstances() {
  const client = useQueryClient();
  const query = useQuery(instances());
  const put = useCallback(
    (id: string, change: (before: Instance | undefined) => Instance | null) =>
      client.setQueryData(instances().queryKey, (list) => {
        if (!list) return list;
        const place = list.items.findIndex((one) => one.id === id);
        const next = change(list.items[place]);
        if (next === null) return place < 0 ? list : { ...list, items: list.items.toSpliced(place, 1) };
        return { ...list, items: place < 0 ? [...list.items, next] : list.items.with(place, next) };
      }),
    [client],
  );
  const stepped = useCallback(
    async (step: Transition) => {
      void client.invalidateQueries({ queryKey: ["instances", "history", step.instance_id] });
      if (step.to_state === "terminated") {
        put(step.instance_id, () => null);
        return;
      }
      const path = { instance: step.instance_id };
      const now = await got(api.GET("/api/v1/instances/{instance}", { params: { path } })).catch(() => null);
      if (now) put(step.instance_id, () => now);
    },
    [client, put],
  );
  const loaded = useLoads();
  useLiveInstances(stepped, loaded);
  return query;
}

/** A thousand instances tell theirs within seconds: they are put in together, so that the list is drawn once for all. */
function useLoads() {
  const client = useQueryClient();
  const told = useRef(new Map<string, Load>());
  useEffect(() => {
    const timer = setInterval(() => {
      const loads = told.current;
      if (!loads.size) return;
      told.current = new Map();
      client.setQueryData(
        instances().queryKey,
        (list) =>
          list && {
            ...list,
            items: list.items.map((one) => {
              const load = loads.get(one.id);
              return load ? { ...one, running: load.running, waiting: load.waiting, kv_used: load.kv_used } : one;
            }),
          },
      );
    }, GATHER_MS);
    return () => clearInterval(timer);
  }, [client]);
  return useCallback((load: Load) => void told.current.set(load.instance, load), []);
}

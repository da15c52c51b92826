import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";
import { api, got, type Schemas } from "@/api/client";
import { type Load, type Transition, useLiveInstances } from "@/api/live";
import { instances } from "@/api/queries";

type Instance = Schemas["InstanceView"];

/** All that live, as they are now: one that takes a step is read again by itself, its load is put in as it is told. */
export function useInstances() {
  const client = useQueryClient();
  const query = useQuery(instances());
  const put = useCallback(
    (id: string, change: (before: Instance | undefined) => Instance | null) =>
      client.setQueryData(instances().queryKey, (all: Instance[] | undefined) => {
        if (!all) return all;
        const place = all.findIndex((one) => one.id === id);
        const next = change(all[place]);
        if (next === null) return place < 0 ? all : all.toSpliced(place, 1);
        return place < 0 ? [...all, next] : all.with(place, next);
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
  const loaded = useCallback(
    (load: Load) =>
      put(load.instance, (before) => (before ? { ...before, running: load.running, waiting: load.waiting, kv_used: load.kv_used } : null)),
    [put],
  );
  useLiveInstances(stepped, loaded);
  return query;
}

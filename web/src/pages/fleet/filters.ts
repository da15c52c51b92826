import { useMemo } from "react";
import { useAddress } from "@/address";
import type { Schemas } from "@/api/client";

type Instance = Schemas["InstanceView"];

export const FILTERS = ["fleet", "model", "leg", "region", "market", "state"] as const;
export type Filter = (typeof FILTERS)[number];

/** `aws/us-east-1/use1-az1` or `aws/us-east-1a`: where it is, without the zone's last letter or number. */
function regionOf(zone: string): string {
  const [cloud = "", ...rest] = zone.split("/");
  const place = rest.join("/").replace(/-az\d+$/, "").replace(/(-[a-z]+\d+)-?[a-z]$/, "$1");
  return `${cloud}/${place}`;
}

function valueOf(instance: Instance, filter: Filter): string {
  return filter === "region" ? regionOf(instance.zone) : instance[filter];
}

/** What is shown of all that runs; the address says it, so that a link shows the same. */
export function useFilters(instances: Instance[]) {
  const [said, say] = useAddress();
  const text = (said.get("q") ?? "").slice(0, 100).toLowerCase();
  const key = said.toString();
  // the address as a whole
  const shown = useMemo(() => {
    const chosen = FILTERS.map((filter) => [filter, said.get(filter) ?? ""] as const).filter(([, value]) => value);
    return instances.filter(
      (one) =>
        chosen.every(([filter, value]) => valueOf(one, filter) === value) &&
        (!text || [one.id, one.model, one.zone, one.template].some((word) => word.toLowerCase().includes(text))),
    );
  }, [instances, key]);
  const values = useMemo(
    () => Object.fromEntries(FILTERS.map((filter) => [filter, [...new Set(instances.map((one) => valueOf(one, filter)))].sort()])) as Record<Filter, string[]>,
    [instances],
  );
  /** The chosen one is among them even where no instance is like that. */
  const options = (filter: Filter) => {
    const chosen = said.get(filter);
    return !chosen || values[filter].includes(chosen) ? values[filter] : [...values[filter], chosen].sort();
  };
  const choose = (name: Filter | "q", value: string) => say({ [name]: value });
  const clear = () => say(Object.fromEntries(["q", ...FILTERS].map((name) => [name, ""])));
  return { said, shown, options, choose, clear, chosen: (name: Filter | "q") => said.get(name) ?? "", isAny: ["q", ...FILTERS].some((name) => said.get(name)) };
}

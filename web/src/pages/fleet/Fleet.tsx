import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useLayoutEffect, useMemo, useRef, useState } from "react";
import { useLocation, useNavigate, useParams } from "react-router";
import type { Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Select } from "@/components/Field";
import { Count, Usd } from "@/components/figures";
import { GpuLegend, gpuOf } from "@/components/gpu";
import { Page } from "@/layout/Page";
import { FILTERS, useFilters } from "./filters";
import { InstanceDrawer } from "./InstanceDrawer";
import { InstanceRow } from "./InstanceRow";
import { useInstances } from "./useInstances";

type Instance = Schemas["InstanceView"];
const ANY = { fleet: "All fleets", model: "All models", leg: "All phases", region: "All regions", market: "All markets", state: "All states" };
const NONE: Instance[] = [];

export default function Fleet() {
  const query = useInstances();
  const { instance: opened } = useParams();
  const { search } = useLocation();
  const go = useNavigate();
  return (
    <Page title="Fleet">
      <Loaded query={query} height={500}>
        {({ items, isWhole }) => <Listed all={items} isWhole={isWhole} />}
      </Loaded>
      {opened && <InstanceDrawer id={opened} onClose={() => go(`/fleet${withoutTab(search)}`)} />}
    </Page>
  );
}

/** What of an instance was looked at ends with its drawer. */
function withoutTab(search: string): string {
  const params = new URLSearchParams(search);
  params.delete("tab");
  return searchOf(params);
}

function searchOf(params: URLSearchParams): string {
  return params.size ? `?${params}` : "";
}

function Listed({ all, isWhole }: { all: Instance[]; isWhole: boolean }) {
  const { said, shown, options, choose, clear, chosen, isAny } = useFilters(all.length ? all : NONE);
  const gpus = useMemo(() => [...new Set(shown.flatMap((one) => one.nodes.map((node) => gpuOf(node.config))))].sort(), [shown]);
  const cost = useMemo(() => shown.reduce((sum, one) => sum + one.usd_per_hour, 0), [shown]);
  if (!all.length) {
    return (
      <Card>
        <Empty title="No instance runs">
          <p>A fleet in mode auto launches what its plan says; one in mode approve waits until somebody approves its plan on the Plan page.</p>
        </Empty>
      </Card>
    );
  }
  return (
    <>
      <div className="toolbar" role="search" aria-label="Instances">
        <input className="input" type="search" maxLength={100} placeholder="Find an instance…" aria-label="Find an instance" value={chosen("q")} onChange={(event) => choose("q", event.target.value)} />
        {FILTERS.map((filter) => (
          <Select key={filter} label={filter} value={chosen(filter)} onChange={(value) => choose(filter, value)} options={options(filter)} any={ANY[filter]} />
        ))}
        {isAny && (
          <Button tone="ghost" onClick={clear}>
            Show all
          </Button>
        )}
      </div>
      <div className="row wrap spread">
        <span className="muted" role="status" aria-busy={!isWhole}>
          {!isWhole && "the first "}
          <Count value={shown.length} /> {shown.length === 1 ? "instance" : "instances"}, planned at{" "}
          <Usd value={cost} per="h" />
        </span>
        <GpuLegend gpus={gpus} />
      </div>
      {shown.length ? (
        <Rows shown={shown} search={searchOf(said)} />
      ) : (
        <Card>
          <Empty title="No instance is like that">
            <Button onClick={clear}>Show all</Button>
          </Empty>
        </Card>
      )}
    </>
  );
}

/** Only those in sight are drawn: there may be thousands. */
function Rows({ shown, search }: { shown: Instance[]; search: string }) {
  const list = useRef<HTMLUListElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => setTop(list.current?.offsetTop ?? 0), []);
  const rows = useWindowVirtualizer({ count: shown.length, estimateSize: () => 66, overscan: 8, scrollMargin: top, getItemKey: (i) => shown[i]?.id ?? i });
  return (
    <ul className="card instances" ref={list} style={{ height: rows.getTotalSize() }} aria-label="Instances">
      {rows.getVirtualItems().map((row) => {
        const instance = shown[row.index];
        if (!instance) return null;
        return (
          <li
            key={row.key}
            ref={rows.measureElement}
            data-index={row.index}
            aria-setsize={shown.length}
            aria-posinset={row.index + 1}
            style={{ transform: `translateY(${row.start - top}px)` }}
          >
            <InstanceRow instance={instance} to={`/fleet/${instance.id}${search}`} />
          </li>
        );
      })}
    </ul>
  );
}

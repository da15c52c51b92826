import { useQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useMemo, useState } from "react";
import { Link } from "react-router";
import { useAddress } from "@/address";
import { fleets, instances } from "@/api/queries";
import { rangeOf } from "@/api/range";
import { type Series, series } from "@/api/series";
import { Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Loaded } from "@/components/feedback";
import { Select } from "@/components/Field";
import { brief, dollars, Num, Percent, percent, Usd } from "@/components/figures";
import { Page } from "@/layout/Page";
import { ModelPlots } from "./ModelPlots";
import { Plot } from "./Plot";
import { RangePicker } from "./RangePicker";

const FILTERS = ["fleet", "model", "zone", "instance"] as const;
const FIRST = 4;

/** What was asked, how fast it was answered, how busy instances were and what they cost, over one time range. */
export default function Performance() {
  const [said, say] = useAddress();
  const key = said.toString();
  // the address as a whole
  const range = useMemo(() => rangeOf(said), [key]);
  const of = Object.fromEntries(FILTERS.map((name) => [name, said.get(name) || undefined]));
  const read = useQuery(series(range, of));
  const onSpan = (begin: number, end: number) => say({ range: "", since: new Date(begin).toISOString(), until: new Date(end).toISOString() });
  return (
    <Page title="Performance">
      <div className="toolbar">
        <RangePicker range={range} say={say} />
        <Filters said={said} say={say} />
      </div>
      <Loaded query={read} height={480}>
        {(data) => (
          <div className="stack" aria-busy={read.isPlaceholderData}>
            <Whole data={data} onSpan={onSpan} />
            <Models data={data} onSpan={onSpan} />
          </div>
        )}
      </Loaded>
    </Page>
  );
}

type FiltersProps = { said: URLSearchParams; say: ReturnType<typeof useAddress>[1] };

function Filters({ said, say }: FiltersProps) {
  const known = useQuery(fleets()).data ?? [];
  const running = useQuery(instances()).data?.items;
  const zones = useMemo(() => [...new Set((running ?? []).map((each) => each.zone))].sort(), [running]);
  const fleet = said.get("fleet") ?? "";
  const models = [...new Set(known.filter((each) => !fleet || each.name === fleet).flatMap((each) => namesOf(each.spec)))].sort();
  const options = { fleet: known.map((each) => each.name), model: models, zone: zones };
  const instance = said.get("instance");
  return (
    <>
      {(["fleet", "model", "zone"] as const).map((name) => {
        const chosen = said.get(name) ?? "";
        const all = !chosen || options[name].includes(chosen) ? options[name] : [...options[name], chosen];
        return <Select key={name} label={name} any={`Any ${name}`} value={chosen} onChange={(next) => say({ [name]: next })} options={all} />;
      })}
      {instance && (
        <span className="row">
          <Link className="mono clip" to={`/fleet/${encodeURIComponent(instance)}`}>
            {instance}
          </Link>
          <Button small icon tone="ghost" aria-label={`Not only ${instance}`} onClick={() => say({ instance: "" })}>
            <X size={14} aria-hidden />
          </Button>
        </span>
      )}
    </>
  );
}

function namesOf(spec: Record<string, unknown>): string[] {
  const models = Array.isArray(spec.models) ? (spec.models as { name?: string; model?: string }[]) : [];
  return models.flatMap((each) => each.name ?? each.model ?? []);
}

type PartProps = { data: Series; onSpan: (begin: number, end: number) => void };

function timesOf(data: Series): number[] {
  return data.at.map((at) => Date.parse(at));
}

/** All that is asked for together. */
function Whole({ data, onSpan }: PartProps) {
  const at = timesOf(data);
  const { traffic, load } = data;
  const num = (value: number) => <Num value={value} />;
  const unseen = "No instance reported in this time. Load is sampled every minute while the API runs; of single instances it is kept for two days.";
  return (
    <Card title="All together">
      <div className="plots">
        {traffic && (
          <>
            <Plot
              title="Requests a second"
              at={at}
              lines={[
                { name: "asked", colour: "var(--accent)", values: traffic.requests_per_s, fill: true, now: num },
                { name: "refused", colour: "var(--bad)", values: traffic.refused_per_s, now: num },
              ]}
              format={brief}
              none="No gateway reported in this time."
              onSpan={onSpan}
            />
            <Plot
              title="Tokens a second"
              at={at}
              lines={[
                { name: "of prompts", colour: "var(--gpu-7)", values: traffic.prompt_tokens_per_s, now: num },
                { name: "of answers", colour: "var(--gpu-3)", values: traffic.output_tokens_per_s, now: num },
              ]}
              format={brief}
              none="No gateway reported in this time."
              onSpan={onSpan}
            />
          </>
        )}
        <Plot
          title="Requests in instances"
          at={at}
          lines={[
            { name: "running", colour: "var(--accent)", values: load.running, fill: true, now: num },
            { name: "waiting", colour: "var(--warn)", values: load.waiting, now: num },
          ]}
          format={brief}
          none={unseen}
          onSpan={onSpan}
        />
        <Plot
          title="KV cache in use"
          at={at}
          lines={[{ name: "of all blocks", colour: "var(--gpu-4)", values: load.kv_used, fill: true, now: (value) => <Percent value={value} /> }]}
          format={percent}
          none={unseen}
          onSpan={onSpan}
        />
        <Plot
          title="Processors that an instance keeps busy"
          at={at}
          lines={[{ name: "on average", colour: "var(--gpu-1)", values: load.cpu, now: num }]}
          format={brief}
          none={unseen}
          onSpan={onSpan}
        />
        <Plot title="Instances that report" at={at} lines={[{ name: "instances", colour: "var(--gpu-2)", values: load.instances, stepped: true, now: num }]} format={brief} none={unseen} onSpan={onSpan} />
        <Plot
          title="Cost"
          at={at}
          lines={[{ name: "$/h", colour: "var(--good)", values: data.usd_per_hour, fill: true, stepped: true, now: (value) => <Usd value={value} per="h" /> }]}
          format={dollars}
          none="Nothing was rented in this time."
          onSpan={onSpan}
        />
      </div>
      {!traffic && <p className="hint">Gateways count requests and latencies by model: they do not know which zone or instance was behind an answer.</p>}
    </Card>
  );
}

function Models({ data, onSpan }: PartProps) {
  const at = timesOf(data);
  const [all, setAll] = useState(false);
  const servingFirst = data.models.toSorted((a, b) => Number(b.latencies.length > 0) - Number(a.latencies.length > 0));
  const shown = all ? servingFirst : servingFirst.slice(0, FIRST);
  return (
    <>
      {shown.map((model) => (
        <ModelPlots key={`${model.fleet} ${model.model}`} model={model} at={at} onSpan={onSpan} />
      ))}
      {shown.length < data.models.length && (
        <div className="row">
          <Button onClick={() => setAll(true)}>{`Show all ${data.models.length} models`}</Button>
        </div>
      )}
    </>
  );
}

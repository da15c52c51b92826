import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import type { Schemas } from "@/api/client";
import { instanceLinks } from "@/api/queries";
import { Loaded } from "@/components/feedback";
import { brief, Num } from "@/components/figures";
import { configName, gpuColour, gpuOf } from "@/components/gpu";
import { layersOf, stagesOf } from "./Pipeline";

type Instance = Schemas["InstanceView"];
type Links = Schemas["InstanceLinks"];

/** The stages of an instance with the bytes that go from each to the next, and the KV cache that goes over. */
export function InstanceFlow({ instance }: { instance: Instance }) {
  const read = useQuery(instanceLinks(instance.id));
  const stages = stagesOf(instance.nodes);
  if (instance.nodes.some((node) => node.components.length)) return null;
  return (
    <section className="card" aria-label="What flows">
      <header>
        <h3>What flows</h3>
        {read.data?.tokens_per_s != null && (
          <span className="muted">
            <Num value={read.data.tokens_per_s} /> tokens/s
          </span>
        )}
      </header>
      <div className="body">
        <Loaded query={read}>
          {(links) => (
            <ol className="flow">
              {links.hand_off && !links.hand_off.is_sent && <Over hand={links.hand_off} name="from prompts on" />}
              {stages.map((stage, place) => (
                <li key={place}>
                  <div className="flow-stage" style={{ ["--gpu" as string]: gpuColour(gpuOf(stage[0]?.config ?? "")) }}>
                    <strong>layers {layersOf(stage)}</strong>
                    <span className="muted">{stage.map((node) => configName(node.config)).join(" + ")}</span>
                  </div>
                  {links.stages[place] && <Arrow bytes={links.stages[place].bytes_per_token} rate={links.stages[place].bytes_per_s} what="states" />}
                </li>
              ))}
              {links.hand_off?.is_sent && <Over hand={links.hand_off} name="to answers on" />}
            </ol>
          )}
        </Loaded>
      </div>
    </section>
  );
}

function Arrow({ bytes, rate, what }: { bytes: number; rate: number | null; what: string }) {
  return (
    <div className="flow-arrow">
      <span aria-hidden>↓</span>
      <span>
        {what}: <data value={bytes}>{size(bytes)}</data> a token
        {rate != null && (
          <>
            , now <data value={rate}>{size(rate)}</data>/s
          </>
        )}
      </span>
    </div>
  );
}

const FIRST = 6;

function Over({ hand, name }: { hand: NonNullable<Links["hand_off"]>; name: string }) {
  const peers = (
    <div className="flow-stage peers">
      <strong>{name}</strong>
      <span className="row wrap">
        {hand.peers.slice(0, FIRST).map((id) => (
          <Link key={id} className="mono" to={`/fleet/${encodeURIComponent(id)}`}>
            {id}
          </Link>
        ))}
        {hand.peers.length > FIRST && <span className="muted">and {hand.peers.length - FIRST} more</span>}
      </span>
    </div>
  );
  const arrow = <Arrow bytes={hand.bytes_per_token} rate={hand.bytes_per_s} what="KV cache" />;
  return (
    <li>
      {hand.is_sent ? (
        <>
          {arrow}
          {peers}
        </>
      ) : (
        <>
          {peers}
          {arrow}
        </>
      )}
    </li>
  );
}

function size(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let place = 0;
  while (value >= 1000 && place < units.length - 1) {
    value /= 1000;
    place++;
  }
  return `${brief(value)} ${units[place]}`;
}

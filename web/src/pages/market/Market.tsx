import { useQuery } from "@tanstack/react-query";
import { useAddress } from "@/address";
import { type Cell, cells, type Market as MarketName, markets } from "@/api/market";
import type { Schemas } from "@/api/client";
import { fleets } from "@/api/queries";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Select } from "@/components/Field";
import { GpuLegend } from "@/components/gpu";
import { Segments } from "@/components/Segments";
import { Page } from "@/layout/Page";
import { CellOffers } from "./CellOffers";
import { Clouds } from "./Clouds";
import { HeatMap } from "./HeatMap";
import { RegionMap } from "./RegionMap";
import { SpotSaving } from "./SpotSaving";
import { MEASURES, type MeasureName } from "./measures";

const MARKETS: readonly { value: MarketName; label: string }[] = [
  { value: "on-demand", label: "On-demand" },
  { value: "spot", label: "Spot" },
];
const OWNED: MarketName = "owned";

const EVERY = "every";

/** What can be rented where, at what price, and how likely it is to be had. */
export default function Market() {
  const [said, say] = useAddress();
  const named = cloudsOf(useQuery(fleets()).data ?? []);
  const sides = named.includes(OWNED) ? [...MARKETS, { value: OWNED, label: "Own machines" }] : MARKETS;
  const market: MarketName = sides.find(({ value }) => value === said.get("market"))?.value ?? "on-demand";
  const measure: MeasureName = said.get("show") === "availability" || said.get("show") === "success" ? (said.get("show") as MeasureName) : "price";
  const [cloud, gpu] = [said.get("cloud") ?? "", said.get("gpu") ?? ""];
  const at = said.get("at") ?? "";
  const open = (place: string) => say({ at: place, offer: "" }, { replace: false });
  const sold = useQuery(cells(market));
  const all = sold.data?.items ?? [];
  const asked = (useQuery(markets()).data?.items ?? []).filter((each) => each.offers > 0).map((each) => each.cloud);
  // Whoever asks some clouds, or has fleets in them, wants to see those; the others' prices are the dated ones that ship.
  const used = [...asked, ...named];
  const inClouds = (cell: Cell) => (cloud ? cloud === EVERY || cell.cloud === cloud : !used.length || used.includes(cell.cloud));
  const shown = all.filter((cell) => inClouds(cell) && (!gpu || cell.gpu === gpu));
  const chosen = all.find((cell) => placeOf(cell) === at);
  return (
    <Page title="Market">
      <div className="toolbar">
        <Segments label="Market" value={market} onChange={(next) => say({ market: next })} options={sides} />
        <Segments
          label="Shown"
          value={measure}
          onChange={(next) => say({ show: next })}
          options={Object.entries(MEASURES).map(([value, { name }]) => ({ value: value as MeasureName, label: name }))}
        />
        <Select label="Cloud" value={cloud} onChange={(next) => say({ cloud: next })} any={used.length ? "Clouds in use" : "All clouds"} options={[...unique(all.map((c) => c.cloud)), ...(used.length ? [{ value: EVERY, label: "All clouds" }] : [])]} />
        <Select label="GPU" value={gpu} onChange={(next) => say({ gpu: next })} any="All GPUs" options={unique(all.map((c) => c.gpu))} />
      </div>
      <Card title={`${MEASURES[measure].title}, ${market}`} side={<GpuLegend gpus={unique(shown.map((c) => c.gpu))} />} flush>
        <Loaded query={sold} height={320}>
          {() =>
            shown.length ? (
              <HeatMap cells={shown} measure={MEASURES[measure]} chosen={at} choose={(cell) => open(placeOf(cell))} />
            ) : (
              <Empty title="No offer fits">Choose another market, cloud or GPU, or ask the clouds for what they sell now.</Empty>
            )
          }
        </Loaded>
      </Card>
      {chosen && <CellOffers cell={chosen} onClose={() => open("")} />}
      <div className="grid wide-narrow">
        <Clouds />
        <SpotSaving fits={(cell) => inClouds(cell) && (!gpu || cell.gpu === gpu)} />
      </div>
      {shown.length > 0 && (
        <Card title={`Regions: ${MEASURES[measure].title}, ${market}`} flush>
          <RegionMap cells={shown} measure={MEASURES[measure]} chosen={at} choose={(cell) => open(placeOf(cell))} />
        </Card>
      )}
    </Page>
  );
}

export function placeOf(cell: Cell): string {
  return `${cell.cloud}/${cell.region}/${cell.node_config}`;
}

/** Clouds that specs of fleets name. */
function cloudsOf(all: Schemas["Fleet"][]): string[] {
  return unique(all.flatMap((fleet) => ((fleet.spec.clouds as { cloud?: string }[] | undefined) ?? []).map((section) => section.cloud ?? "")));
}

function unique(names: string[]): string[] {
  return [...new Set(names)].sort();
}

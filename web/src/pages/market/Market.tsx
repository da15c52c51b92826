import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { type Cell, cells, type Market as MarketName, markets } from "@/api/market";
import { Card } from "@/components/Card";
import { Empty, Loaded } from "@/components/feedback";
import { Select } from "@/components/Field";
import { GpuLegend } from "@/components/gpu";
import { Segments } from "@/components/Segments";
import { Page } from "@/layout/Page";
import { CellOffers } from "./CellOffers";
import { Clouds } from "./Clouds";
import { HeatMap } from "./HeatMap";
import { SpotSaving } from "./SpotSaving";
import { MEASURES, type MeasureName } from "./measures";

const MARKETS = [
  { value: "on-demand", label: "On-demand" },
  { value: "spot", label: "Spot" },
] as const;

const EVERY = "every";

/** What can be rented where, at what price, and how likely it is to be had. */
export default function Market() {
  const [search, setSearch] = useSearchParams();
  const market = (search.get("market") === "spot" ? "spot" : "on-demand") as MarketName;
  const measure: MeasureName = search.get("show") === "availability" || search.get("show") === "success" ? (search.get("show") as MeasureName) : "price";
  const [cloud, gpu] = [search.get("cloud") ?? "", search.get("gpu") ?? ""];
  const at = search.get("at") ?? "";
  const set = (name: string, value: string) =>
    setSearch(
      (before) => {
        if (value) before.set(name, value);
        else before.delete(name);
        return before;
      },
      { replace: name !== "at" },
    );
  const sold = useQuery(cells(market));
  const all = sold.data?.items ?? [];
  const asked = (useQuery(markets()).data?.items ?? []).filter((each) => each.offers > 0).map((each) => each.cloud);
  // Whoever asks some clouds wants to see those; the others' prices are the dated ones that ship.
  const inClouds = (cell: Cell) => (cloud ? cloud === EVERY || cell.cloud === cloud : !asked.length || asked.includes(cell.cloud));
  const shown = all.filter((cell) => inClouds(cell) && (!gpu || cell.gpu === gpu));
  const chosen = all.find((cell) => placeOf(cell) === at);
  return (
    <Page title="Market">
      <div className="toolbar">
        <Segments label="Market" value={market as "on-demand" | "spot"} onChange={(next) => set("market", next)} options={MARKETS} />
        <Segments
          label="Shown"
          value={measure}
          onChange={(next) => set("show", next)}
          options={Object.entries(MEASURES).map(([value, { name }]) => ({ value: value as MeasureName, label: name }))}
        />
        <Select label="Cloud" value={cloud} onChange={(next) => set("cloud", next)} any={asked.length ? "Clouds that answered" : "All clouds"} options={[...unique(all.map((c) => c.cloud)), ...(asked.length ? [{ value: EVERY, label: "All clouds" }] : [])]} />
        <Select label="GPU" value={gpu} onChange={(next) => set("gpu", next)} any="All GPUs" options={unique(all.map((c) => c.gpu))} />
      </div>
      <Card title={`${MEASURES[measure].title}, ${market}`} side={<GpuLegend gpus={unique(shown.map((c) => c.gpu))} />} flush>
        <Loaded query={sold} height={320}>
          {() =>
            shown.length ? (
              <HeatMap cells={shown} measure={MEASURES[measure]} chosen={at} choose={(cell) => set("at", placeOf(cell))} />
            ) : (
              <Empty title="No offer fits">Choose another market, cloud or GPU, or ask the clouds for what they sell now.</Empty>
            )
          }
        </Loaded>
      </Card>
      {chosen && <CellOffers cell={chosen} onClose={() => set("at", "")} />}
      <div className="grid wide-narrow">
        <Clouds />
        <SpotSaving fits={(cell) => inClouds(cell) && (!gpu || cell.gpu === gpu)} />
      </div>
    </Page>
  );
}

export function placeOf(cell: Cell): string {
  return `${cell.cloud}/${cell.region}/${cell.node_config}`;
}

function unique(names: string[]): string[] {
  return [...new Set(names)].sort();
}

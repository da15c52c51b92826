/** Where regions are: degrees north and east of the city or state that their cloud names. */
const AWS: Record<string, [number, number]> = {
  "us-east-1": [38.9, -77.4], "us-east-2": [40, -83], "us-west-1": [37.4, -121.9], "us-west-2": [45.8, -119.7],
  "ca-central-1": [45.5, -73.6], "ca-west-1": [51, -114.1], "mx-central-1": [20.6, -100.4], "sa-east-1": [-23.5, -46.6],
  "eu-west-1": [53.3, -6.3], "eu-west-2": [51.5, -0.1], "eu-west-3": [48.9, 2.4], "eu-central-1": [50.1, 8.7], "eu-central-2": [47.4, 8.5],
  "eu-north-1": [59.3, 18.1], "eu-south-1": [45.5, 9.2], "eu-south-2": [41.6, -0.9],
  "ap-south-1": [19.1, 72.9], "ap-south-2": [17.4, 78.5], "ap-northeast-1": [35.7, 139.7], "ap-northeast-2": [37.6, 127], "ap-northeast-3": [34.7, 135.5],
  "ap-southeast-1": [1.3, 103.9], "ap-southeast-2": [-33.9, 151.2], "ap-southeast-3": [-6.2, 106.8], "ap-southeast-4": [-37.8, 145],
  "ap-southeast-5": [3.1, 101.7], "ap-southeast-7": [13.8, 100.5], "ap-east-1": [22.3, 114.2], "ap-east-2": [25, 121.5],
  "me-south-1": [26.2, 50.6], "me-central-1": [24.5, 54.4], "il-central-1": [32.1, 34.8], "af-south-1": [-33.9, 18.4],
};
const GCP: Record<string, [number, number]> = {
  "us-central1": [41.3, -95.9], "us-east1": [33.2, -80], "us-east4": [39, -77.5], "us-east5": [40, -83], "us-south1": [32.8, -96.8],
  "us-west1": [45.6, -121.2], "us-west2": [34.1, -118.2], "us-west3": [40.8, -111.9], "us-west4": [36.2, -115.1],
  "northamerica-northeast1": [45.5, -73.6], "northamerica-northeast2": [43.7, -79.4], "northamerica-south1": [20.6, -100.4],
  "southamerica-east1": [-23.5, -46.6], "southamerica-west1": [-33.4, -70.7],
  "europe-west1": [50.4, 3.8], "europe-west2": [51.5, -0.1], "europe-west3": [50.1, 8.7], "europe-west4": [53.4, 6.8], "europe-west6": [47.4, 8.5],
  "europe-west8": [45.5, 9.2], "europe-west9": [48.9, 2.4], "europe-west10": [52.5, 13.4], "europe-west12": [45.1, 7.7],
  "europe-central2": [52.2, 21], "europe-north1": [60.6, 27.2], "europe-north2": [59.3, 18.1], "europe-southwest1": [40.4, -3.7],
  "asia-east1": [24.1, 120.5], "asia-east2": [22.3, 114.2], "asia-northeast1": [35.7, 139.7], "asia-northeast2": [34.7, 135.5], "asia-northeast3": [37.6, 127],
  "asia-south1": [19.1, 72.9], "asia-south2": [28.6, 77.2], "asia-southeast1": [1.3, 103.8], "asia-southeast2": [-6.2, 106.8],
  "australia-southeast1": [-33.9, 151.2], "australia-southeast2": [-37.8, 145], "me-central1": [25.3, 51.5], "me-central2": [26.4, 50.1], "me-west1": [32.1, 34.8],
  "africa-south1": [-26.2, 28],
};
const PLACES: Record<string, Record<string, [number, number]>> = { aws: AWS, gcp: GCP };

/** Degrees north and east; null where nobody says. */
export function placeOfRegion(cloud: string, region: string): [number, number] | null {
  return PLACES[cloud]?.[region] ?? null;
}

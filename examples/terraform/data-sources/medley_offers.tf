data "medley_offers" "l40s" {
  gpu    = "L40S"
  market = "spot"
  limit  = 5
}

output "cheapest_l40s" {
  value = data.medley_offers.l40s.offers[0]
}

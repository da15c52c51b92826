data "medley_plan" "support" {
  fleet = medley_fleet.support.id
}

output "saved_usd_per_hour" {
  value = data.medley_plan.support.saving.usd_per_hour
}

check "everybody_is_served" {
  assert {
    condition     = data.medley_plan.support.unmet_share == 0
    error_message = "Not all demand can be met: ${jsonencode(data.medley_plan.support.unmet)}"
  }
}

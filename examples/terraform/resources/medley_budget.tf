resource "medley_budget" "support" {
  project       = medley_project.support.id
  usd_per_hour  = 120
  usd_per_month = 60000
}

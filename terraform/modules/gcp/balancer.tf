# HTTPS for people, Terraform and clients of models.

resource "google_compute_global_address" "this" {
  project = var.project_id
  name    = "${var.name}-https"
}

resource "google_compute_region_network_endpoint_group" "this" {
  for_each = local.services_run

  project               = var.project_id
  name                  = "${var.name}-${each.key}"
  region                = var.region
  network_endpoint_type = "SERVERLESS"

  cloud_run {
    service = google_cloud_run_v2_service.this[each.key].name
  }
}

resource "google_compute_security_policy" "this" {
  #checkov:skip=CKV_GCP_73:Nothing behind it is written in Java, and a prompt may well quote such text
  project     = var.project_id
  name        = var.name
  description = "Who may come, and to what"

  # They are open on purpose, for who watches from inside.
  rule {
    action      = "deny(404)"
    priority    = 100
    description = "Not from outside"
    match {
      expr {
        expression = "request.path.matches('^/(metrics|readyz)/?$')"
      }
    }
  }

  rule {
    action      = "allow"
    priority    = 1000
    description = "Clients"
    match {
      versioned_expr = "SRC_IPS_V1"
      config {
        src_ip_ranges = var.client_cidrs
      }
    }
  }

  rule {
    action      = "deny(403)"
    priority    = 2147483647
    description = "Nobody else"
    match {
      versioned_expr = "SRC_IPS_V1"
      config {
        src_ip_ranges = ["*"]
      }
    }
  }
}

resource "google_compute_backend_service" "this" {
  for_each = local.services_run

  project               = var.project_id
  name                  = "${var.name}-${each.key}"
  protocol              = "HTTPS"
  load_balancing_scheme = "EXTERNAL_MANAGED"
  security_policy       = google_compute_security_policy.this.id

  backend {
    group = google_compute_region_network_endpoint_group.this[each.key].id
  }

  log_config {
    enable      = true
    sample_rate = 1
  }
}

resource "google_compute_url_map" "this" {
  project         = var.project_id
  name            = var.name
  default_service = google_compute_backend_service.this["api"].id

  dynamic "host_rule" {
    for_each = local.services_run
    content {
      hosts        = [host_rule.value.hostname]
      path_matcher = host_rule.key
    }
  }

  dynamic "path_matcher" {
    for_each = local.services_run
    content {
      name            = path_matcher.key
      default_service = google_compute_backend_service.this[path_matcher.key].id
    }
  }
}

resource "google_compute_managed_ssl_certificate" "this" {
  project = var.project_id
  name    = "${var.name}-${substr(sha256("${var.api_hostname} ${var.gateway_hostname}"), 0, 8)}"

  managed {
    domains = [var.api_hostname, var.gateway_hostname]
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_ssl_policy" "this" {
  project         = var.project_id
  name            = var.name
  profile         = "RESTRICTED"
  min_tls_version = "TLS_1_2"
}

resource "google_compute_target_https_proxy" "this" {
  project          = var.project_id
  name             = var.name
  url_map          = google_compute_url_map.this.id
  ssl_certificates = [google_compute_managed_ssl_certificate.this.id]
  ssl_policy       = google_compute_ssl_policy.this.id
}

resource "google_compute_global_forwarding_rule" "this" {
  project               = var.project_id
  name                  = "${var.name}-https"
  target                = google_compute_target_https_proxy.this.id
  ip_address            = google_compute_global_address.this.id
  port_range            = "443"
  load_balancing_scheme = "EXTERNAL_MANAGED"
  labels                = local.labels
}

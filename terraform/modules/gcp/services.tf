# The API and the gateways: Cloud Run takes their requests and holds streams of up to an hour.

locals {
  services_run = {
    api = {
      # Tables are brought to this release's revision first; a release that is older goes on with them.
      script   = "medley db upgrade && exec medley api --host 0.0.0.0 --port ${local.api_port} --proxies 169.254.0.0/16,35.191.0.0/16,130.211.0.0/22,${google_compute_global_address.this.address}"
      port     = local.api_port, replicas = var.api_replicas, cpu = "2", memory = "4Gi", database = true, health = "/healthz"
      hostname = var.api_hostname
    }
    gateway = {
      # Until the reconciler has made the gateways' key, at its first start
      script   = "until [ -s ${local.home}/control/gateway.key ]; do sleep 2; done; exec medley gateway --host 0.0.0.0 --port ${local.gateway_port}"
      port     = local.gateway_port, replicas = var.gateway_replicas, cpu = "2", memory = "4Gi", database = false, health = "/healthz"
      hostname = var.gateway_hostname
    }
  }

  environment = { MEDLEY_HOME = local.home, GOOGLE_CLOUD_PROJECT = var.project_id }

  secret_environment = merge(
    { MEDLEY_DATABASE_URL = google_secret_manager_secret.this["database-url"].id },
    var.runpod_secret_id == null ? {} : { RUNPOD_API_KEY = "projects/${var.project_id}/secrets/${var.runpod_secret_id}" },
  )

  jobs = {
    # Nodes do not find it, so it misses none for its silence: it compares with the clouds' lists only.
    watch = {
      account = "reconcile", secrets = local.secret_environment, writes = true, timeout_s = 900, memory = "8Gi"
      script  = "exec medley ${join(" ", local.reconcile_arguments)} --once --timeout-minutes 10 --reach-s 3600"
    }
    # The token goes from one process to the other: to no log, argument or file.
    first-token = {
      account = "first", secrets = { MEDLEY_DATABASE_URL = local.secret_environment.MEDLEY_DATABASE_URL }, writes = false, timeout_s = 300, memory = "2Gi"
      script  = "medley db upgrade; token=$(medley token create first --role admin); printf %s \"$token\" | python3 -c \"$PUT_SECRET\" ${google_secret_manager_secret.this["first-token"].id}"
    }
  }
}

resource "google_cloud_run_v2_service" "this" {
  for_each = local.services_run

  project             = var.project_id
  name                = "${var.name}-${each.key}"
  location            = var.region
  ingress             = "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
  deletion_protection = var.deletion_protection
  # Medley checks tokens itself; only the load balancer gets here.
  invoker_iam_disabled = true
  labels               = local.labels

  template {
    service_account                  = google_service_account.this[each.key].email
    timeout                          = "3600s"
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    max_instance_request_concurrency = 500
    labels                           = local.labels

    scaling {
      min_instance_count = each.value.replicas
      max_instance_count = 2 * each.value.replicas
    }

    vpc_access {
      egress = "PRIVATE_RANGES_ONLY"
      network_interfaces {
        network    = data.google_compute_network.this.id
        subnetwork = data.google_compute_subnetwork.this.id
      }
    }

    containers {
      image   = var.image
      command = ["sh", "-ec"]
      args    = [each.value.script]

      ports {
        container_port = each.value.port
      }

      # Solves of the API and streams of the gateway go on between requests.
      resources {
        limits            = { cpu = each.value.cpu, memory = each.value.memory }
        cpu_idle          = false
        startup_cpu_boost = true
      }

      dynamic "env" {
        for_each = local.environment
        content {
          name  = env.key
          value = env.value
        }
      }

      dynamic "env" {
        for_each = each.value.database ? local.secret_environment : {}
        content {
          name = env.key
          value_source {
            secret_key_ref {
              secret  = env.value
              version = "latest"
            }
          }
        }
      }

      startup_probe {
        period_seconds    = 10
        timeout_seconds   = 5
        failure_threshold = 24
        http_get {
          path = each.value.health
        }
      }

      liveness_probe {
        period_seconds    = 10
        timeout_seconds   = 5
        failure_threshold = 3
        http_get {
          path = each.value.health
        }
      }

      volume_mounts {
        name       = "shared"
        mount_path = local.home
      }

      dynamic "volume_mounts" {
        for_each = each.value.database ? ["database-ca"] : []
        content {
          name       = volume_mounts.value
          mount_path = "/run/database"
        }
      }
    }

    volumes {
      name = "shared"
      nfs {
        server    = local.files.server
        path      = local.files.path
        read_only = true
      }
    }

    dynamic "volumes" {
      for_each = each.value.database ? ["database-ca"] : []
      content {
        name = volumes.value
        secret {
          secret = google_secret_manager_secret.this["database-ca"].id
          items {
            version = "latest"
            path    = "ca.pem"
          }
        }
      }
    }
  }

  depends_on = [
    google_compute_instance.reconcile, google_secret_manager_secret_version.database_ca, google_secret_manager_secret_iam_member.reader,
  ]
}

resource "google_cloud_run_v2_job" "this" {
  for_each = local.jobs

  project             = var.project_id
  name                = "${var.name}-${each.key}"
  location            = var.region
  deletion_protection = var.deletion_protection
  labels              = local.labels

  template {
    template {
      service_account       = google_service_account.this[each.value.account].email
      timeout               = "${each.value.timeout_s}s"
      max_retries           = 0
      execution_environment = "EXECUTION_ENVIRONMENT_GEN2"

      vpc_access {
        egress = "PRIVATE_RANGES_ONLY"
        network_interfaces {
          network    = data.google_compute_network.this.id
          subnetwork = data.google_compute_subnetwork.this.id
        }
      }

      containers {
        image   = var.image
        command = ["sh", "-ec"]
        args    = [each.value.script]

        resources {
          limits = { cpu = "2", memory = each.value.memory }
        }

        dynamic "env" {
          for_each = merge(local.environment, { PUT_SECRET = file("${path.module}/put_secret.py") })
          content {
            name  = env.key
            value = env.value
          }
        }

        dynamic "env" {
          for_each = each.value.secrets
          content {
            name = env.key
            value_source {
              secret_key_ref {
                secret  = env.value
                version = "latest"
              }
            }
          }
        }

        volume_mounts {
          name       = "shared"
          mount_path = local.home
        }

        volume_mounts {
          name       = "database-ca"
          mount_path = "/run/database"
        }
      }

      volumes {
        name = "shared"
        nfs {
          server    = local.files.server
          path      = local.files.path
          read_only = !each.value.writes
        }
      }

      volumes {
        name = "database-ca"
        secret {
          secret = google_secret_manager_secret.this["database-ca"].id
          items {
            version = "latest"
            path    = "ca.pem"
          }
        }
      }
    }
  }

  depends_on = [google_secret_manager_secret_version.database_ca, google_secret_manager_secret_iam_member.reader]
}

# Beside the loop, not instead of it: nodes find the machine with the address, and a job not. While somebody leads it ends
# at once. When nobody does, it leads for one round: machines that no row explains are ended, fleets that were told to end
# do, what a cloud took is replaced.
resource "google_cloud_scheduler_job" "watch" {
  project     = var.project_id
  region      = var.region
  name        = "${var.name}-watch"
  description = "medley reconcile --once, for when nobody leads"
  schedule    = var.watch_schedule
  time_zone   = "Etc/UTC"

  retry_config {
    retry_count = 0
  }

  http_target {
    http_method = "POST"
    uri         = "https://run.googleapis.com/v2/${google_cloud_run_v2_job.this["watch"].id}:run"
    oauth_token {
      service_account_email = google_service_account.this["watch"].email
    }
  }
}

resource "google_cloud_run_v2_job_iam_member" "watch" {
  project  = var.project_id
  location = var.region
  name     = google_cloud_run_v2_job.this["watch"].name
  role     = "roles/run.invoker"
  member   = google_service_account.this["watch"].member
}

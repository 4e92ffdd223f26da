//! The admin API on the Unix socket, which the CLI uses. Access to the socket gives access to the whole API.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::reload::Reloads;
use super::reply::{Refused, Reply, with_fallbacks};
use super::scrape;
use super::strict::Strict;
use crate::model::{
    AdminStatus, Alarm, BackupChangeView, BackupId, BackupOrder, BackupSummary, CommandName, DirectiveOrder,
    DirectiveView, DisarmOrder, DisarmView, EventsView, Fact, ListedBackup, LogOrder, LogView, MemberList,
    NodeName, OperatorRequest, Page, PlanView, QuarantineOrder, QuarantineView, ReleaseView, ReloadView,
    RequestView, RestoreTarget, Revision, SizeOrder, SizeView, Spec, StopVerdict, StoreCommand, UnixMs,
    Verdict,
};
use crate::ports::{AgentHandle, OrderError};
use crate::telemetry::{self, Counters};

struct Api {
    handle: Arc<dyn AgentHandle>,
    counters: Arc<Counters>,
    reloads: Arc<Reloads>,
}

type Shared = State<Arc<Api>>;

pub(super) fn router(handle: Arc<dyn AgentHandle>, counters: Arc<Counters>, reloads: Arc<Reloads>) -> Router {
    let router = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/status/fresh", get(fresh_status))
        .route("/v1/plan", get(plan))
        .route("/v1/members", get(members))
        .route("/v1/ok-to-stop", get(ok_to_stop))
        .route("/v1/alarms", get(alarms))
        .route("/v1/alarms/disarm", post(disarm))
        .route("/v1/quarantine", post(quarantine))
        .route("/v1/reboot-lock/release", post(release_reboot_lock))
        .route("/v1/spec", get(spec).post(set_size))
        .route("/v1/backups", get(backups))
        .route("/v1/directives", post(direct))
        .route("/v1/events", get(events))
        .route("/v1/backups/retention", get(retention))
        .route("/v1/backups/point", get(point))
        .route("/v1/backups/change", post(change_backup))
        .route("/v1/commands", get(commands))
        .route("/v1/commands/delete", post(delete_command))
        .route("/v1/preview", post(preview))
        .route("/v1/requests", post(submit))
        .route("/v1/requests/{id}", get(request))
        .route("/v1/reload", get(reload).post(ask_reload))
        .route("/v1/log-level", get(log_level).post(set_log_level))
        .route("/metrics", get(metrics))
        .with_state(Arc::new(Api {
            handle,
            counters,
            reloads,
        }));
    with_fallbacks(router)
}

/// The API of an agent without a configuration: it serves reloads and answers 503 to every other request.
pub(super) fn unconfigured(reloads: Arc<Reloads>) -> Router {
    let view = |State(reloads): State<Arc<Reloads>>| async move { Json(reloads.view()) };
    let ask = |State(reloads): State<Arc<Reloads>>| async move { Json(reloads.ask()) };
    Router::new()
        .route("/v1/reload", get(view).post(ask))
        .fallback(|| async {
            Refused::unavailable("not configured: run `etcd-agent init` or write /etc/etcd-agent/config.toml")
        })
        .with_state(reloads)
}

async fn reload(State(api): Shared) -> Json<ReloadView> {
    Json(api.reloads.view())
}

async fn ask_reload(State(api): Shared) -> Json<ReloadView> {
    Json(api.reloads.ask())
}

async fn status(State(api): Shared) -> Json<AdminStatus> {
    Json(api.handle.admin_status())
}

async fn fresh_status(State(api): Shared) -> Reply<AdminStatus> {
    Ok(Json(api.handle.fresh_admin_status().await?))
}

fn planned(api: &Api) -> Result<PlanView, Refused> {
    api.handle.plan_view().ok_or_else(|| {
        Refused::unavailable("the agent has just started and has not looked around yet, try again")
    })
}

async fn plan(State(api): Shared) -> Reply<PlanView> {
    Ok(Json(planned(&api)?))
}

async fn spec(State(api): Shared) -> Reply<Spec> {
    Ok(Json(planned(&api)?.observation.spec))
}

async fn set_size(State(api): Shared, Strict(order): Strict<SizeOrder>) -> Reply<SizeView> {
    let set = api.handle.set_size(&order).await;
    set.map(Json).map_err(not_carried_out)
}

async fn change_backup(State(api): Shared, Strict(order): Strict<BackupOrder>) -> Reply<BackupChangeView> {
    let changed = api.handle.change_backup(&order).await;
    changed.map(Json).map_err(not_carried_out)
}

fn not_carried_out(error: OrderError) -> Refused {
    match error {
        OrderError::Here(error) => error.into(),
        OrderError::Store(error) => Refused::by_store(&error),
    }
}

async fn members(State(api): Shared) -> Reply<MemberList> {
    match api.handle.status().members {
        Fact::Known(list) => Ok(Json(list)),
        Fact::Absent => Err(Refused::new(
            StatusCode::NOT_FOUND,
            "this node has no etcd member yet",
        )),
        Fact::Unreachable(why) => Err(Refused::unavailable(why)),
    }
}

/// `GET /v1/ok-to-stop`: this node, unless another one is named.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StopQuery {
    node: Option<NodeName>,
}

async fn ok_to_stop(
    State(api): Shared,
    query: Result<Query<StopQuery>, QueryRejection>,
) -> Reply<StopVerdict> {
    let Query(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    Ok(Json(api.handle.ok_to_stop(query.node).await?))
}

async fn alarms(State(api): Shared) -> Reply<Vec<Alarm>> {
    Ok(Json(api.handle.alarms().await?))
}

async fn disarm(State(api): Shared, Strict(order): Strict<DisarmOrder>) -> Reply<DisarmView> {
    Ok(Json(api.handle.disarm(&order).await?))
}

async fn quarantine(State(api): Shared, Strict(order): Strict<QuarantineOrder>) -> Reply<QuarantineView> {
    Ok(Json(api.handle.quarantine(&order).await?))
}

async fn release_reboot_lock(State(api): Shared) -> Reply<ReleaseView> {
    Ok(Json(api.handle.release_reboot_lock(None)?))
}

/// `GET /v1/backups/point`: at most one of `revision`, `time_ms` and `full`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PointQuery {
    backup: Option<BackupId>,
    revision: Option<Revision>,
    time_ms: Option<UnixMs>,
    full: Option<bool>,
}

async fn point(State(api): Shared, query: Result<Query<PointQuery>, QueryRejection>) -> Reply<BackupSummary> {
    let Query(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    let full = query.full.unwrap_or(false);
    let wanted = match (query.revision, query.time_ms, full) {
        (None, None, false) => RestoreTarget::Latest,
        (None, None, true) => RestoreTarget::Full,
        (Some(revision), None, false) => RestoreTarget::Revision(revision),
        (None, Some(time), false) => RestoreTarget::Time(time),
        _ => return Err(Refused::bad("expected at most one of revision, time_ms and full")),
    };
    let point = api.handle.point(query.backup, wanted).await;
    point.map(Json).map_err(|error| Refused::by_store(&error))
}

async fn commands(State(api): Shared) -> Reply<Vec<StoreCommand>> {
    let commands = api.handle.commands().await;
    commands.map(Json).map_err(|error| Refused::by_store(&error))
}

async fn delete_command(State(api): Shared, Strict(wanted): Strict<CommandName>) -> Reply<CommandName> {
    let deleted = api.handle.delete_command(&wanted.name).await;
    if deleted.map_err(|error| Refused::by_store(&error))? {
        return Ok(Json(wanted));
    }
    Err(Refused::new(StatusCode::NOT_FOUND, wanted.absent()))
}

/// The query of `GET /v1/backups` and `GET /v1/backups/retention`, which return one page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PageQuery {
    /// Only this backup.
    backup: Option<BackupId>,
    /// The page begins after this backup.
    after: Option<BackupId>,
}

async fn retention(
    State(api): Shared,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Reply<Page<Verdict>> {
    let Query(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    let page = api.handle.retention(query.after).await;
    page.map(Json).map_err(|error| Refused::by_store(&error))
}

async fn backups(
    State(api): Shared,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Reply<Page<ListedBackup>> {
    let Query(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    let page = api.handle.backups(query.backup, query.after).await;
    page.map(Json).map_err(|error| Refused::by_store(&error))
}

async fn direct(State(api): Shared, Strict(order): Strict<DirectiveOrder>) -> Reply<DirectiveView> {
    Ok(Json(api.handle.direct(&order).await?))
}

async fn preview(State(api): Shared, Strict(wanted): Strict<OperatorRequest>) -> Reply<DirectiveView> {
    Ok(Json(api.handle.preview(&wanted)?))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    after: Option<u64>,
}

async fn events(State(api): Shared, query: Result<Query<After>, QueryRejection>) -> Reply<EventsView> {
    let Query(query) = query.map_err(|error| Refused::bad(error.body_text()))?;
    Ok(Json(api.handle.events(query.after.unwrap_or(0))))
}

async fn submit(
    State(api): Shared,
    Strict(wanted): Strict<OperatorRequest>,
) -> Result<(StatusCode, Json<RequestView>), Refused> {
    Ok((StatusCode::ACCEPTED, Json(api.handle.submit(wanted)?)))
}

async fn request(State(api): Shared, Path(id): Path<String>) -> Reply<RequestView> {
    let id: u64 = id
        .parse()
        .map_err(|_| Refused::bad("expected the number of a request"))?;
    api.handle.request(id).map(Json).ok_or_else(|| {
        Refused::new(
            StatusCode::NOT_FOUND,
            format!("there is no request {id} in this run of the agent"),
        )
    })
}

fn log_view() -> Json<LogView> {
    Json(LogView {
        filter: telemetry::log_filter(),
    })
}

async fn log_level() -> Json<LogView> {
    log_view()
}

async fn set_log_level(Strict(order): Strict<LogOrder>) -> Json<LogView> {
    telemetry::set_log_level(order.level);
    let view = log_view();
    tracing::warn!("an operator set the log level: {}", view.filter);
    view
}

async fn metrics(State(api): Shared, headers: HeaderMap) -> Response {
    scrape::answer(api.handle.as_ref(), &api.counters, &headers).await
}

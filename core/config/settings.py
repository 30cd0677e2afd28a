"""The whole configuration: one section per room."""

from collections import Counter

from pydantic import Field, field_validator

from core.config.access import AccessSettings, UserSettings
from core.config.admin import AdminSettings
from core.config.alarms import AlarmSettings
from core.config.amqp091 import Amqp091Settings
from core.config.amqp10 import Amqp10Settings
from core.config.audit import AuditSettings
from core.config.cluster import ClusterSettings
from core.config.credit_flow import StageCreditSettings
from core.config.data import DataSettings
from core.config.engine import EngineSettings
from core.config.flow_events import FlowEventsSettings
from core.config.log import LogSettings
from core.config.metrics import MetricsSettings
from core.config.oauth2 import OAuth2Settings
from core.config.section import Section
from core.config.server import ServerSettings
from core.config.store import StoreSettings
from core.config.tls import TlsSettings
from core.config.traces import TraceSettings


class Settings(Section):
    """All settings. Made by :func:`core.config.load`."""

    server: ServerSettings = ServerSettings()
    tls: TlsSettings = TlsSettings()
    data: DataSettings = DataSettings()
    store: StoreSettings = StoreSettings()
    alarms: AlarmSettings = AlarmSettings()
    log: LogSettings = LogSettings()
    access: AccessSettings = AccessSettings()
    oauth2: OAuth2Settings = OAuth2Settings()
    audit: AuditSettings = AuditSettings()
    amqp10: Amqp10Settings = Amqp10Settings()
    amqp091: Amqp091Settings = Amqp091Settings()
    stage_credit: StageCreditSettings = StageCreditSettings()
    engine: EngineSettings = EngineSettings()
    cluster: ClusterSettings = ClusterSettings()
    admin: AdminSettings = AdminSettings()
    metrics: MetricsSettings = MetricsSettings()
    flow_events: FlowEventsSettings = FlowEventsSettings()
    traces: TraceSettings = TraceSettings()
    users: tuple[UserSettings, ...] = Field(default=(), strict=False)
    """The users. Without any, the user guest with the password guest may connect, from this machine only."""

    @field_validator("users")
    @classmethod
    def _names_once(cls, users: tuple[UserSettings, ...]) -> tuple[UserSettings, ...]:
        for name, count in Counter(user.name for user in users).items():
            if count > 1:
                raise ValueError(f"must not have the name {name!r} {count} times")
        return users

"""Rules of CreateTrainingJob between several fields of a request: what SageMaker refuses, and from
where it is known.

RULES is the table. A rule with a source refuses the request when it is submitted, instead of hours
later when the job starts. A rule whose source leaves a doubt (`certain=False`) only warns. The
structure of a request, so its types and required fields, is checked before (`training_request`).

Sources: "API" is botocore's description of the field, which is the API reference's text; "SDK #n"
is the issue n of aws/sagemaker-python-sdk that quotes SageMaker's answer; "guide" is a page of the
SageMaker developer guide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from slotq_core.wire.training.field_paths import MISSING, value_at

Request = Mapping[str, Any]
Breach = tuple[str, str]
"""The path of a field, and what is wrong with it."""

DAY = 86_400
"""Seconds. SageMaker's default of MaxRuntimeInSeconds (API)."""
LOCAL_STORAGE = ("ml.p4d.", "ml.g4dn.", "ml.g5.")
"""The families that the API's text names as having local storage."""
PROFILING_INTERVALS = (100, 200, 500, 1000, 5000, 60_000)
"""The allowed values of ProfilingIntervalInMilliseconds (API)."""
MOST_WARNINGS = 10
"""The most warnings of one request."""
_SHOWN = 5
"""The most names that a message lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldRule:
    """One rule. `breaches` reads a request whose fields have the right types."""

    source: str
    breaches: Callable[[Request], Iterator[Breach]]
    certain: bool = True
    """Whether the source says that SageMaker refuses. Otherwise a breach is only a warning."""
    cures: tuple[str, ...] = ()
    """Fields that may end a breach. The job's project may fill them in where the request lacks
    them."""

    def is_curable(self, request: Request) -> bool:
        """Whether the request lacks a field that may end a breach."""
        return any(_get(request, path) in (None, {}) for path in self.cures)


def breaches(request: Request) -> Iterator[tuple[FieldRule, str, str]]:
    """The broken rules of a request, with path and message. Proportional to the request's size."""
    for rule in RULES:
        for path, message in rule.breaches(request):
            yield rule, path, message


def warnings(request: Request) -> Iterator[str]:
    """Warnings of what SageMaker may refuse or ignore, as sentences; at most MOST_WARNINGS, so that
    an answer does not grow with the request."""
    doubtful = (found for found in breaches(request) if not found[0].certain)
    for rule, path, message in islice(doubtful, MOST_WARNINGS):
        yield f"{path}: {message} ({rule.source})"


def _get(request: Request, path: str) -> Any:
    """The field's value; None if it is missing."""
    found = value_at(request, path)
    return None if found is MISSING else found


def _list(request: Request, path: str) -> Sequence[Any]:
    found = _get(request, path)
    return found if isinstance(found, list) else ()


def _channels(request: Request) -> Iterator[tuple[str, Request]]:
    """Each channel with its path."""
    for number, channel in enumerate(_list(request, "InputDataConfig")):
        yield f"InputDataConfig.{number}", channel


def _mode(request: Request, channel: Request) -> str:
    own = channel.get("InputMode") or _get(request, "AlgorithmSpecification.TrainingInputMode")
    return str(own or "File")


def _named(names: Iterable[str]) -> str:
    found = [*names]
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(name[:63] for name in found[:_SHOWN]) + more


def _repeated(path: str, key: str, items: Iterable[tuple[int, Any]]) -> Iterator[Breach]:
    """Each item whose key an earlier item of the list has."""
    seen: Counter[str] = Counter()
    for number, name in items:
        seen[name] += 1
        if seen[name] == 2:
            yield f"{path}.{number}.{key}", f"'{str(name)[:63]}' occurs more than once"


def _keys(request: Request, path: str, key: str) -> Iterator[tuple[int, Any]]:
    for number, item in enumerate(_list(request, path)):
        if isinstance(item, Mapping) and isinstance(item.get(key), str):
            yield number, item[key]


# --- instances ---


def _one_way_to_name_instances(request: Request) -> Iterator[Breach]:
    config = request.get("ResourceConfig") or {}
    if config.get("InstanceGroups"):
        for name in ("InstanceType", "InstanceCount"):
            if name in config:
                yield f"ResourceConfig.{name}", "leave it out: InstanceGroups names the instances"


def _group_names_are_unique(request: Request) -> Iterator[Breach]:
    path, key = "ResourceConfig.InstanceGroups", "InstanceGroupName"
    yield from _repeated(path, key, _keys(request, path, key))


def _selected_is_read_only(request: Request) -> Iterator[Breach]:
    for name in ("SelectedInstanceType", "SelectedInstanceCount"):
        if _get(request, f"ResourceConfig.{name}") is not None:
            yield f"ResourceConfig.{name}", "leave it out: only SageMaker's answers have it"


def _no_warm_pool_for_groups_and_spot(request: Request) -> Iterator[Breach]:
    if not _get(request, "ResourceConfig.KeepAlivePeriodInSeconds"):
        return
    path = "ResourceConfig.KeepAlivePeriodInSeconds"
    if _get(request, "ResourceConfig.InstanceGroups"):
        yield path, "warm pools do not work with InstanceGroups"
    if request.get("EnableManagedSpotTraining"):
        yield path, "warm pools do not work with spot training"


def _no_preferences_for_spot(request: Request) -> Iterator[Breach]:
    if request.get("EnableManagedSpotTraining") and _get(
        request, "ResourceConfig.InstancePreferences"
    ):
        yield "EnableManagedSpotTraining", "InstancePreferences do not work with spot training"


def _no_plan_for_spot(request: Request) -> Iterator[Breach]:
    if request.get("EnableManagedSpotTraining") and _get(request, "ResourceConfig.TrainingPlanArn"):
        yield "EnableManagedSpotTraining", "a training plan's capacity is no spot capacity"


def _volume_key_needs_a_volume(request: Request) -> Iterator[Breach]:
    if not _get(request, "ResourceConfig.VolumeKmsKeyId"):
        return
    types = [_get(request, "ResourceConfig.InstanceType")]
    types += [kind for _, kind in _keys(request, "ResourceConfig.InstanceGroups", "InstanceType")]
    local = sorted({kind for kind in types if kind and kind.startswith(LOCAL_STORAGE)})
    if local:
        yield (
            "ResourceConfig.VolumeKmsKeyId",
            f"{_named(local)} has local storage, which its hardware encrypts",
        )


# --- time ---


def _spot_waits_long_enough(request: Request) -> Iterator[Breach]:
    wait = _get(request, "StoppingCondition.MaxWaitTimeInSeconds")
    run = _get(request, "StoppingCondition.MaxRuntimeInSeconds")
    if request.get("EnableManagedSpotTraining") and wait is not None:
        least = DAY if run is None else run
        if wait < least:
            said = "the default of MaxRuntimeInSeconds" if run is None else "MaxRuntimeInSeconds"
            yield (
                "StoppingCondition.MaxWaitTimeInSeconds",
                f"is {wait:,} and must be at least {least:,}, {said}: it covers waits and runs",
            )


def _spot_names_wait(request: Request) -> Iterator[Breach]:
    path = "StoppingCondition.MaxWaitTimeInSeconds"
    if request.get("EnableManagedSpotTraining") and _get(request, path) is None:
        yield path, "is required with EnableManagedSpotTraining"


def _only_spot_waits(request: Request) -> Iterator[Breach]:
    path = "StoppingCondition.MaxWaitTimeInSeconds"
    if not request.get("EnableManagedSpotTraining") and _get(request, path) is not None:
        yield path, "leave it out, or set EnableManagedSpotTraining"


# --- input ---

_SOURCES = ("S3DataSource", "FileSystemDataSource", "DatasetSource")


def _a_channel_has_one_source(request: Request) -> Iterator[Breach]:
    for path, channel in _channels(request):
        source = channel.get("DataSource")
        if source is None:
            continue  # Its absence is a fault of the structure.
        sources = [name for name in _SOURCES if source.get(name)]
        unknown = source.keys() - {*_SOURCES}  # A newer source of SageMaker's may count.
        if not sources and not unknown:
            yield f"{path}.DataSource", f"give one of {', '.join(_SOURCES)}"
        if len(sources) > 1:
            yield f"{path}.DataSource", f"give one of {' and '.join(sources)}"


def _channel_names_are_unique(request: Request) -> Iterator[Breach]:
    yield from _repeated(
        "InputDataConfig", "ChannelName", _keys(request, "InputDataConfig", "ChannelName")
    )


def _groups_of(channel: Request) -> Sequence[Any] | None:
    """The instance groups that the channel names; None if it can name none."""
    source = (channel.get("DataSource") or {}).get("S3DataSource")
    if not isinstance(source, Mapping):
        return None
    return source.get("InstanceGroupNames") or ()


def _groups_of_all_channels_or_none(request: Request) -> Iterator[Breach]:
    channels = [(path, channel, _groups_of(channel)) for path, channel in _channels(request)]
    if not any(groups for *_, groups in channels):
        return
    known = dict.fromkeys(
        name for _, name in _keys(request, "ResourceConfig.InstanceGroups", "InstanceGroupName")
    )
    for path, channel, groups in channels:
        here = f"{path}.DataSource.S3DataSource.InstanceGroupNames"
        if groups is None:
            continue
        if not groups:
            name = str(channel.get("ChannelName"))[:63]
            yield here, f"channel {name} names no instance groups, and other channels do"
            continue
        strange = [str(name) for name in groups if name not in known]
        if strange and known:
            yield here, f"there is no instance group {_named(strange)}; there are {_named(known)}"
        elif strange:
            yield here, "leave it out: ResourceConfig has no InstanceGroups"


def _some_channels_can_name_no_groups(request: Request) -> Iterator[Breach]:
    channels = [(path, _groups_of(channel)) for path, channel in _channels(request)]
    if any(groups for _, groups in channels):
        for path, groups in channels:
            if groups is None:
                yield f"{path}.DataSource", "can name no instance groups, and other channels do"


def _file_systems_need_a_vpc(request: Request) -> Iterator[Breach]:
    mounted = (
        path
        for path, channel in _channels(request)
        if (channel.get("DataSource") or {}).get("FileSystemDataSource")
    )
    path = next(mounted, None)
    if path and not request.get("VpcConfig"):
        yield "VpcConfig", f"is required: {path} is a file system"


def _augmented_manifests_are_piped(request: Request) -> Iterator[Breach]:
    for path, channel in _channels(request):
        kind = _get(channel, "DataSource.S3DataSource.S3DataType")
        mode = _mode(request, channel)
        if kind == "AugmentedManifestFile" and mode != "Pipe":
            yield f"{path}.InputMode", f"an AugmentedManifestFile needs Pipe, not {mode}"


def _only_pipes_unpack(request: Request) -> Iterator[Breach]:
    for path, channel in _channels(request):
        if _mode(request, channel) == "Pipe":
            continue
        for name in ("CompressionType", "RecordWrapperType"):
            if channel.get(name) not in {None, "None"}:
                yield f"{path}.{name}", "has an effect only in the input mode Pipe"


def _attributes_need_an_augmented_manifest(request: Request) -> Iterator[Breach]:
    for path, channel in _channels(request):
        source = _get(channel, "DataSource.S3DataSource") or {}
        if source.get("AttributeNames") and source.get("S3DataType") != "AugmentedManifestFile":
            yield (
                f"{path}.DataSource.S3DataSource.AttributeNames",
                "has an effect only with an AugmentedManifestFile",
            )


# --- output, image, debugger, tags ---


def _express_buckets_take_no_key(request: Request) -> Iterator[Breach]:
    place = str(_get(request, "OutputDataConfig.S3OutputPath") or "")
    bucket = place.partition("://")[2].partition("/")[0]
    if bucket.endswith("--x-s3") and _get(request, "OutputDataConfig.KmsKeyId"):
        yield "OutputDataConfig.KmsKeyId", "leave it out: S3 Express One Zone takes no KMS key"


def _private_registries_need_a_vpc(request: Request) -> Iterator[Breach]:
    path = "AlgorithmSpecification.TrainingImageConfig.TrainingRepositoryAccessMode"
    if _get(request, path) == "Vpc" and not request.get("VpcConfig"):
        yield "VpcConfig", "a private Docker registry is reached through it"


def _rule_names_are_unique(request: Request) -> Iterator[Breach]:
    lists = ("DebugRuleConfigurations", "ProfilerRuleConfigurations")
    for path in lists:
        key = "RuleConfigurationName"
        yield from _repeated(path, key, _keys(request, path, key))


def _collection_names_are_unique(request: Request) -> Iterator[Breach]:
    path, key = "DebugHookConfig.CollectionConfigurations", "CollectionName"
    yield from _repeated(path, key, _keys(request, path, key))


def _profiling_intervals(request: Request) -> Iterator[Breach]:
    path = "ProfilerConfig.ProfilingIntervalInMilliseconds"
    interval = _get(request, path)
    if interval is not None and interval not in PROFILING_INTERVALS:
        allowed = ", ".join(f"{value:,}" for value in PROFILING_INTERVALS)
        yield path, f"must be one of {allowed}, not {interval:,}"


def _tag_keys_are_unique(request: Request) -> Iterator[Breach]:
    yield from _repeated("Tags", "Key", _keys(request, "Tags", "Key"))


_WARM = "guide: managed warm pools"

RULES: tuple[FieldRule, ...] = (
    FieldRule(source="SDK #5555", breaches=_one_way_to_name_instances),
    FieldRule(source="API, InstanceGroups", breaches=_group_names_are_unique, certain=False),
    FieldRule(source="API, SelectedInstanceType", breaches=_selected_is_read_only),
    FieldRule(source=_WARM, breaches=_no_warm_pool_for_groups_and_spot, certain=False),
    FieldRule(source="API, TrainingPlanArn", breaches=_no_plan_for_spot, certain=False),
    FieldRule(source="API, InstancePreferences", breaches=_no_preferences_for_spot),
    FieldRule(source="API, VolumeKmsKeyId", breaches=_volume_key_needs_a_volume, certain=False),
    FieldRule(
        source="API, MaxWaitTimeInSeconds",
        breaches=_spot_waits_long_enough,
        cures=("StoppingCondition.MaxRuntimeInSeconds",),
    ),
    FieldRule(
        source="API, StoppingCondition",
        breaches=_spot_names_wait,
        cures=("StoppingCondition.MaxWaitTimeInSeconds",),
    ),
    FieldRule(source="SDK #4140", breaches=_only_spot_waits, cures=("EnableManagedSpotTraining",)),
    FieldRule(source="API, DataSource", breaches=_a_channel_has_one_source),
    FieldRule(source="API, ChannelName", breaches=_channel_names_are_unique, certain=False),
    FieldRule(source="SDK #5225, #6089", breaches=_groups_of_all_channels_or_none),
    FieldRule(source="SDK #6089", breaches=_some_channels_can_name_no_groups, certain=False),
    FieldRule(
        source="guide: file systems as input",
        breaches=_file_systems_need_a_vpc,
        cures=("VpcConfig",),
    ),
    FieldRule(
        source="API, S3DataType",
        breaches=_augmented_manifests_are_piped,
        cures=("AlgorithmSpecification.TrainingInputMode",),
    ),
    FieldRule(source="API, CompressionType", breaches=_only_pipes_unpack, certain=False),
    FieldRule(
        source="API, AttributeNames",
        breaches=_attributes_need_an_augmented_manifest,
        certain=False,
    ),
    FieldRule(source="API, OutputDataConfig", breaches=_express_buckets_take_no_key),
    FieldRule(
        source="API, TrainingImageConfig", breaches=_private_registries_need_a_vpc, certain=False
    ),
    FieldRule(source="API, RuleConfigurationName", breaches=_rule_names_are_unique),
    FieldRule(source="API, CollectionName", breaches=_collection_names_are_unique, certain=False),
    FieldRule(source="API, ProfilingIntervalInMilliseconds", breaches=_profiling_intervals),
    FieldRule(source="API, TagKey", breaches=_tag_keys_are_unique),
)

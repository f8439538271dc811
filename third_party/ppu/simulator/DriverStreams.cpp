// Streams and events. Work is done at once, so that waiting means only asking
// whether an earlier kernel failed.

#include "DriverState.h"

namespace flagtree::simulator {
namespace {

Result createStream(Stream *stream, unsigned flags, int priority,
                    Detail &detail) {
  if (!stream || flags > 1)
    return InvalidValue;
  DriverState &state = driver();
  std::lock_guard<std::mutex> guard(state.lock);
  ContextRecord *context;
  if (Result result = requireContext(context))
    return result;
  auto record = std::make_unique<StreamRecord>();
  *record = {context, flags, priority};
  *stream = record.get();
  state.streams.emplace(*stream, std::move(record));
  detail.add("stream=%p device=%d", static_cast<void *>(*stream),
             context->device);
  return Success;
}

// Runs work with a live event, under the lock.
template <typename Work> Result withEvent(Event event, Work &&work) {
  std::lock_guard<std::mutex> guard(driver().lock);
  if (!driver().events.count(event))
    return InvalidHandle;
  return work();
}

Result waitForStream(Stream stream, Detail &detail) {
  detail.add("stream=%p", static_cast<void *>(stream));
  std::lock_guard<std::mutex> guard(driver().lock);
  ContextRecord *context;
  if (Result result = contextOfStream(stream, context))
    return result;
  return static_cast<Result>(asynchronousError());
}

} // namespace

Result contextOfStream(Stream stream, ContextRecord *&context) {
  if (isBuiltInStream(stream))
    return requireContext(context);
  auto found = driver().streams.find(stream);
  if (found == driver().streams.end())
    return InvalidHandle;
  // A thread without a current context may not launch, whatever the stream.
  if (!currentContext())
    return InvalidContext;
  context = found->first->context;
  return Success;
}

FLAGTREE_SIM_DRIVER(StreamCreate)(Stream *stream, unsigned flags) {
  return call(DriverCall::StreamCreate, Needs::Initialization,
              [&](Detail &d) { return createStream(stream, flags, 0, d); });
}

FLAGTREE_SIM_DRIVER(StreamCreateWithPriority)
(Stream *stream, unsigned flags, int priority) {
  return call(
      DriverCall::StreamCreateWithPriority, Needs::Initialization,
      [&](Detail &d) { return createStream(stream, flags, priority, d); });
}

FLAGTREE_SIM_DRIVER(StreamDestroy_v2)(Stream stream) {
  return call(DriverCall::StreamDestroy_v2, Needs::Initialization,
              [&](Detail &) {
                std::lock_guard<std::mutex> guard(driver().lock);
                return driver().streams.erase(stream) ? Success : InvalidHandle;
              });
}

FLAGTREE_SIM_DRIVER(StreamSynchronize)(Stream stream) {
  return call(DriverCall::StreamSynchronize, Needs::Initialization,
              [&](Detail &d) { return waitForStream(stream, d); });
}

FLAGTREE_SIM_DRIVER(StreamQuery)(Stream stream) {
  return call(DriverCall::StreamQuery, Needs::Initialization,
              [&](Detail &d) { return waitForStream(stream, d); });
}

FLAGTREE_SIM_DRIVER(StreamWaitEvent)(Stream stream, Event event, unsigned) {
  return call(DriverCall::StreamWaitEvent, Needs::Initialization,
              [&](Detail &) {
                return withEvent(event, [&] {
                  ContextRecord *context;
                  return contextOfStream(stream, context);
                });
              });
}

FLAGTREE_SIM_DRIVER(StreamGetCtx)(Stream stream, Context *context) {
  return call(DriverCall::StreamGetCtx, Needs::Initialization, [&](Detail &) {
    if (!context)
      return InvalidValue;
    std::lock_guard<std::mutex> guard(driver().lock);
    auto found = driver().streams.find(stream);
    if (found != driver().streams.end()) {
      *context = stream->context;
      return Success;
    }
    if (!isBuiltInStream(stream))
      return InvalidHandle;
    return requireContext(*context);
  });
}

FLAGTREE_SIM_DRIVER(StreamGetDevice)(Stream stream, Device *device) {
  return call(DriverCall::StreamGetDevice, Needs::Initialization,
              [&](Detail &) {
                if (!device)
                  return InvalidValue;
                std::lock_guard<std::mutex> guard(driver().lock);
                ContextRecord *context;
                if (driver().streams.count(stream)) {
                  *device = stream->context->device;
                  return Success;
                }
                if (!isBuiltInStream(stream))
                  return InvalidHandle;
                if (Result result = requireContext(context))
                  return result;
                *device = context->device;
                return Success;
              });
}

FLAGTREE_SIM_DRIVER(EventCreate)(Event *event, unsigned flags) {
  return call(DriverCall::EventCreate, Needs::Initialization, [&](Detail &) {
    if (!event)
      return InvalidValue;
    DriverState &state = driver();
    std::lock_guard<std::mutex> guard(state.lock);
    ContextRecord *context;
    if (Result result = requireContext(context))
      return result;
    auto record = std::make_unique<EventRecord>();
    record->context = context;
    record->flags = flags;
    *event = record.get();
    state.events.emplace(*event, std::move(record));
    return Success;
  });
}

FLAGTREE_SIM_DRIVER(EventDestroy_v2)(Event event) {
  return call(DriverCall::EventDestroy_v2, Needs::Initialization,
              [&](Detail &) {
                return withEvent(event, [&] {
                  driver().events.erase(event);
                  return Success;
                });
              });
}

FLAGTREE_SIM_DRIVER(EventRecord)(Event event, Stream stream) {
  return call(DriverCall::EventRecord, Needs::Initialization, [&](Detail &) {
    return withEvent(event, [&] {
      ContextRecord *context;
      if (Result result = contextOfStream(stream, context))
        return result;
      if (context != event->context)
        return InvalidHandle;
      event->recordedAt = monotonicNanoseconds();
      return Success;
    });
  });
}

FLAGTREE_SIM_DRIVER(EventQuery)(Event event) {
  return call(DriverCall::EventQuery, Needs::Initialization, [&](Detail &) {
    return withEvent(event,
                     [] { return static_cast<Result>(asynchronousError()); });
  });
}

FLAGTREE_SIM_DRIVER(EventSynchronize)(Event event) {
  return call(DriverCall::EventSynchronize, Needs::Initialization,
              [&](Detail &) {
                return withEvent(event, [] {
                  return static_cast<Result>(asynchronousError());
                });
              });
}

FLAGTREE_SIM_DRIVER(EventElapsedTime)
(float *milliseconds, Event start, Event end) {
  return call(DriverCall::EventElapsedTime, Needs::Initialization,
              [&](Detail &) {
                if (!milliseconds)
                  return InvalidValue;
                return withEvent(start, [&] {
                  if (!driver().events.count(end) || !start->recordedAt ||
                      !end->recordedAt)
                    return InvalidHandle;
                  *milliseconds = float(double(int64_t(end->recordedAt) -
                                               int64_t(start->recordedAt)) *
                                        1e-6);
                  return Success;
                });
              });
}

} // namespace flagtree::simulator

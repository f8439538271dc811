#include "Faults.h"

#include "Configuration.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace flagtree::simulator {
namespace {

struct Order {
  std::string call;
  bool isPrefix = false;
  uint64_t first = 1, last = UINT64_MAX, step = 1;
  bool isRandom = false;
  double probability = 0;
  uint64_t seed = 0;
  Fault fault;

  bool names(const char *name) const {
    return isPrefix ? std::strncmp(call.c_str(), name, call.size()) == 0
                    : call == name;
  }
};

struct Plan {
  std::vector<Order> orders;
  const Plan *replaced; ///< kept: another thread may be reading it
};
std::atomic<const Plan *> plan{nullptr};

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  size_t start = 0;
  for (;;) {
    size_t end = text.find(separator, start);
    parts.push_back(text.substr(start, end - start));
    if (end == std::string::npos)
      return parts;
    start = end + 1;
  }
}

std::string trimmed(const std::string &text) {
  size_t start = text.find_first_not_of(" \t\n");
  if (start == std::string::npos)
    return "";
  return text.substr(start, text.find_last_not_of(" \t\n") - start + 1);
}

bool readNumber(const std::string &text, uint64_t &value) {
  char *end = nullptr;
  value = std::strtoull(text.c_str(), &end, 10);
  return !text.empty() && !*end && text[0] >= '0' && text[0] <= '9';
}

bool readDecimal(const std::string &text, double &value) {
  char *end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return !text.empty() && !*end && value >= 0;
}

bool readWhen(const std::string &when, Order &order) {
  if (when == "every")
    return true;
  if (when == "first") {
    order.last = 1;
    return true;
  }
  std::vector<std::string> parts = split(when, ':');
  if (parts[0] == "every" && parts.size() == 2) {
    if (!readNumber(parts[1], order.step) || order.step == 0)
      return false;
    order.first = order.step;
    return true;
  }
  if (parts[0] == "random" && parts.size() == 3) {
    order.isRandom = true;
    return readDecimal(parts[1], order.probability) && order.probability <= 1 &&
           readNumber(parts[2], order.seed);
  }
  std::vector<std::string> bounds = split(when, '-');
  if (bounds.size() > 2 || !readNumber(bounds[0], order.first) ||
      order.first == 0)
    return false;
  if (bounds.size() == 1) {
    order.last = order.first;
    return true;
  }
  return bounds[1].empty() ||
         (readNumber(bounds[1], order.last) && order.last >= order.first);
}

bool readAction(const std::string &action, Fault &fault) {
  uint64_t result;
  if (readNumber(action, result)) {
    fault.hasResult = true;
    fault.result = int(result);
    return true;
  }
  if (action == "hang" || action == "abort" || action == "segv") {
    fault.ending = action == "hang"    ? Ending::Hang
                   : action == "abort" ? Ending::Abort
                                       : Ending::Segv;
    return true;
  }
  std::vector<std::string> parts = split(action, ':');
  if (parts.size() != 2)
    return false;
  if (parts[0] == "delay")
    return readDecimal(parts[1], fault.delayMilliseconds);
  if (parts[0] == "async" && readNumber(parts[1], result) && result) {
    fault.asyncResult = int(result);
    return true;
  }
  return false;
}

bool isKnown(const Order &order) {
  for (unsigned i = 0; i < callNames.count; ++i)
    if (order.names(callNames.names[i]))
      return true;
  return false;
}

uint64_t hash(const char *name, uint64_t occurrence, uint64_t seed) {
  uint64_t value = 0xcbf29ce484222325ull ^ seed;
  for (; *name; ++name)
    value = (value ^ static_cast<unsigned char>(*name)) * 0x100000001b3ull;
  value = (value ^ occurrence) * 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9ull;
  return value ^ (value >> 32);
}

__attribute__((constructor)) void readFaults() {
  setFaults(std::getenv("FLAGTREE_SIM_FAULTS"));
}

} // namespace

bool findFault(unsigned index, uint64_t occurrence, Fault &fault) {
  const Plan *current = plan.load(std::memory_order_acquire);
  if (!current)
    return false;
  const char *name = callNames.names[index];
  for (const Order &order : current->orders) {
    if (!order.names(name))
      continue;
    bool applies;
    if (order.isRandom) {
      double drawn = double(hash(name, occurrence, order.seed) >> 11) * 0x1p-53;
      applies = drawn < order.probability;
    } else {
      applies = occurrence >= order.first && occurrence <= order.last &&
                (occurrence - order.first) % order.step == 0;
    }
    if (applies) {
      fault = order.fault;
      return true;
    }
  }
  return false;
}

void setFaults(const char *orders) {
  Plan *read = new Plan;
  for (const std::string &text : split(orders ? orders : "", ';')) {
    std::string orderText = trimmed(text);
    if (orderText.empty())
      continue;
    size_t at = orderText.find('@');
    size_t equals = orderText.find('=', at == std::string::npos ? 0 : at);
    if (at == std::string::npos || equals == std::string::npos)
      refuse("an order of FLAGTREE_SIM_FAULTS is not call@when=action",
             orderText.c_str());
    Order order;
    order.call = trimmed(orderText.substr(0, at));
    if (!order.call.empty() && order.call.back() == '*') {
      order.isPrefix = true;
      order.call.pop_back();
    }
    if (!readWhen(trimmed(orderText.substr(at + 1, equals - at - 1)), order))
      refuse("FLAGTREE_SIM_FAULTS: when is not first, N, N-M, N-, every, "
             "every:K or random:P:SEED",
             orderText.c_str());
    for (const std::string &action : split(orderText.substr(equals + 1), '+'))
      if (!readAction(trimmed(action), order.fault))
        refuse("FLAGTREE_SIM_FAULTS: an action is not a result, delay:MS, "
               "hang, abort, segv or async:RESULT",
               orderText.c_str());
    if (!callNames.owns(order.call.c_str()))
      continue;
    if (!isKnown(order))
      refuse("FLAGTREE_SIM_FAULTS names a call that does not exist",
             orderText.c_str());
    read->orders.push_back(order);
  }
  read->replaced = plan.load();
  plan.store(read, std::memory_order_release);
}

} // namespace flagtree::simulator

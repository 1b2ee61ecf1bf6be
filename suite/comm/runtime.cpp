// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "suite/comm/runtime.hpp"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <type_traits>

#include "suite/comm/detail/device.hpp"
#include "suite/comm/detail/parts.hpp"
#include "suite/comm/host_products.hpp"
#include "suite/comm/launcher.hpp"
#include "suite/comm/sharing.hpp"
#include "suite/error.hpp"
#include "suite/hash.hpp"

namespace taugrid::comm {

namespace {

std::atomic<std::atomic<int>*> stop_flag{nullptr};

extern "C" void on_stop_signal(int signal) {
  if (auto* flag = stop_flag.load()) {
    int none = 0;
    flag->compare_exchange_strong(none, signal);
  }
}

/// What each rank sends of itself.
struct Card {
  int rank;
  int local_rank;
  int pid;
  int threads;
  std::array<char, 64> host;
  std::array<char, 64> device;
  std::array<char, 64> identity;
  cpu_set_t cores;
};
static_assert(std::is_trivially_copyable_v<Card>);

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// "0-3,8"
std::string list_of(const cpu_set_t& cores) {
  std::string text;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &cores)) continue;
    int last = i;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cores)) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", i);
    if (last > i) text += fmt::format("-{}", last);
    i = last;
  }
  return text;
}

void split_further(MPI_Comm& host, int color) {
  int rank = 0;
  MPI_Comm_rank(host, &rank);
  MPI_Comm part = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(host, color, rank, &part), "MPI_Comm_split");
  MPI_Comm_free(&host);
  host = part;
}

// Containers of one machine, each with a name of its own, need not share /dev/shm: each is a host.
MPI_Comm host_ranks(MPI_Comm world, int ranks_per_host) {
  MPI_Comm host = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  split_further(host, static_cast<int>(fnv1a(host_name()) >> 33));
  if (ranks_per_host > 0) {
    int rank = 0;
    MPI_Comm_rank(host, &rank);
    split_further(host, rank / ranks_per_host);
  }
  return host;
}

std::uint64_t pid_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

void set_torch_threads(int threads) {
  at::set_num_threads(threads);
  static const bool once = [] {
    at::set_num_interop_threads(1);  // a second call throws
    return true;
  }();
  static_cast<void>(once);
}

// A device that one rank lacks ends all, with the first such rank's words: where it was asked for, and where
// others of "auto" found one.
void require_on_all(std::string problem, const ChosenDevice& device) {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const bool without = problem.empty() && device.place.is_cpu();
  int some_has = problem.empty() && !without ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &some_has, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (without && some_has != 0)
    problem = fmt::format(
        "others of this launch have a GPU, this rank has none{}; start with --device cpu, or where all have "
        "one",
        device.warning.empty() ? "" : " (" + device.warning + ")");
  int first = problem.empty() ? size : rank;
  MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == size) return;
  if (rank == first && size > 1) problem = fmt::format("rank {} ({}): {}", rank, host_name(), problem);
  int length = static_cast<int>(problem.size());
  MPI_Bcast(&length, 1, MPI_INT, first, MPI_COMM_WORLD);
  problem.resize(static_cast<std::size_t>(length));
  MPI_Bcast(problem.data(), length, MPI_CHAR, first, MPI_COMM_WORLD);
  throw InputError(problem);
}

}  // namespace

detail::Parts::Start::Start(int& argc, char**& argv, const std::string& wanted_device) {
  int running = 0;
  MPI_Initialized(&running);
  int provided = 0;
  launched_by_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;  // MPI_Init may set it under others
  if (running == 0) require_connected();
  std::string problem;
  try {
    device = choose_device(wanted_device);
  } catch (const InputError& error) {
    problem = error.what();
  }
  if (running != 0) {
    MPI_Query_thread(&provided);
  } else {
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    started = true;
  }
  try {
    require_on_all(problem, device);
  } catch (const InputError&) {
    if (started) MPI_Finalize();
    throw;
  }
  if (provided < MPI_THREAD_MULTIPLE) {
    throw std::runtime_error("this MPI gives no MPI_THREAD_MULTIPLE, which taugrid needs");
  }
}

detail::Parts::Parts(int& argc, char**& argv, const std::string& wanted_device)
    : start(argc, argv, wanted_device), world(MPI_COMM_WORLD) {}

Runtime::Runtime(int& argc, char**& argv, Options options)
    : parts_(std::make_unique<detail::Parts>(argc, argv, options.device)) {
  auto& self = *parts_;
  const auto& world = self.world;
  check_mpi(MPI_Comm_dup(world.mpi(), &self.control), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(self.control, MPI_ERRORS_RETURN);

  MPI_Comm host = host_ranks(world.mpi(), options.ranks_per_host);
  detail::Monitor::Place place{self.control, detail::share_board(host), 0, 1, {}, host_name()};
  MPI_Comm_rank(host, &place.local_rank);
  MPI_Comm_size(host, &place.local_size);
  int leader = world.rank();
  check_mpi(MPI_Bcast(&leader, 1, MPI_INT, 0, host), "MPI_Bcast");
  place.leaders.resize(world.size());
  check_mpi(MPI_Allgather(&leader, 1, MPI_INT, place.leaders.data(), 1, MPI_INT, world.mpi()),
            "MPI_Allgather");

  self.local_rank = place.local_rank;
  self.slot = &place.board->slots[place.local_rank];
  self.slot->pid = getpid();
  self.slot->rank = world.rank();
  self.slot->pid_namespace = pid_namespace();
  detail::publish_to(*self.slot);
  self.stop = std::make_unique<StopRequest>(&place.board->stop);

  stop_flag = &place.board->stop;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, &self.old_term);
  sigaction(SIGUSR1, &action, &self.old_usr1);

  if (!self.start.device.place.is_cpu()) {
    int aware = self.start.device.mpi_takes_its_memory ? 1 : 0;
    check_mpi(MPI_Bcast(&aware, 1, MPI_INT, 0, host), "MPI_Bcast");
    self.world.use_device(std::make_shared<const detail::DeviceLink>(
        detail::DeviceLink{self.start.device.place, self.start.device.identity, aware != 0}));
  }

  check_mpi(MPI_Barrier(host), "MPI_Barrier");  // all slots are filled before anyone looks
  MPI_Comm_free(&host);
  self.monitor = std::make_unique<detail::Monitor>(std::move(place));
  set_threads(options.threads);
  set_host_products(fastest_host_products());
}

Runtime::~Runtime() {
  auto& self = *parts_;
  self.slot->left = true;
  self.monitor.reset();
  sigaction(SIGTERM, &self.old_term, nullptr);
  sigaction(SIGUSR1, &self.old_usr1, nullptr);
  stop_flag = nullptr;
  if (std::uncaught_exceptions() > 0) {
    return;  // what follows is collective
  }
  MPI_Comm_free(&self.control);
  { const auto world = std::move(self.world); }
  if (self.start.started) {
    MPI_Finalize();
  }
}

const Communicator& Runtime::world() const { return parts_->world; }
const StopRequest& Runtime::stop() const { return *parts_->stop; }
const std::vector<RankInfo>& Runtime::ranks() const { return parts_->ranks; }
const RankInfo& Runtime::mine() const { return parts_->ranks[parts_->world.rank()]; }
int Runtime::ranks_on_host() const {
  return static_cast<int>(std::count_if(ranks().begin(), ranks().end(),
                                        [this](const RankInfo& each) { return each.host == mine().host; }));
}
int Runtime::first_on_host() const {
  return static_cast<int>(std::find_if(ranks().begin(), ranks().end(),
                                       [this](const RankInfo& each) { return each.host == mine().host; }) -
                          ranks().begin());
}
double Runtime::elapsed() const { return steady_seconds() - parts_->began; }
void Runtime::set_time_limit(std::chrono::duration<double> limit) {
  parts_->monitor->stop_at(parts_->began + limit.count());
}

void Runtime::limit_collectives(std::chrono::duration<double> limit) {
  parts_->monitor->limit_collectives(limit.count());
}
void Runtime::limit_stops(std::chrono::duration<double> limit) {
  parts_->monitor->limit_stops(limit.count());
}
at::Device Runtime::device() const { return parts_->start.device.place; }
DeviceSharing device_sharing(const Runtime& runtime) {
  return {runtime.parts().start.device.identity, runtime.parts().ranks_on_device};
}

void Runtime::set_threads(int threads) {
  auto& self = *parts_;
  set_torch_threads(threads);
  Card mine{};
  mine.rank = self.world.rank();
  mine.local_rank = self.local_rank;
  mine.pid = getpid();
  mine.threads = threads;
  host_name().copy(mine.host.data(), mine.host.size() - 1);
  const auto& device = self.start.device;
  device.name.copy(mine.device.data(), mine.device.size() - 1);
  device.identity.copy(mine.identity.data(), mine.identity.size() - 1);
  CPU_ZERO(&mine.cores);
  sched_getaffinity(0, sizeof mine.cores, &mine.cores);
  std::vector<Card> cards(self.world.size());
  check_mpi(
      MPI_Allgather(&mine, sizeof mine, MPI_BYTE, cards.data(), sizeof mine, MPI_BYTE, self.world.mpi()),
      "MPI_Allgather");

  self.ranks.clear();
  self.warnings.clear();
  struct Load {
    int threads = 0;
    int ranks = 0;
    cpu_set_t cores{};
  };
  std::map<std::string, Load> hosts;
  std::map<std::string, int> devices;
  for (const auto& card : cards) {
    self.ranks.push_back({card.rank, card.local_rank, card.host.data(), card.pid, CPU_COUNT(&card.cores),
                          list_of(card.cores), card.threads, card.device.data()});
    auto& load = hosts[card.host.data()];
    load.threads += card.threads;
    load.ranks += 1;
    CPU_OR(&load.cores, &load.cores, &card.cores);
    if (const std::string identity = card.identity.data(); !identity.empty() && ++devices[identity] == 2) {
      self.warnings.push_back(
          fmt::format("{}: more than one rank computes on {}; NCCL cannot be used among them",
                      card.host.data(), card.device.data()));
    }
  }
  if (!device.identity.empty()) self.ranks_on_device = devices[mine.identity.data()];
  if (!device.warning.empty()) self.warnings.push_back(device.warning);
  if (const char* given = std::getenv("SLURM_CPUS_PER_TASK");
      given != nullptr && device.place.is_cpu() && std::atoi(given) > threads) {
    self.warnings.push_back(fmt::format(
        "Slurm gives each rank {} cores (--cpus-per-task), and it computes with {} (run.threads_per_rank)",
        given, threads));
  }
  for (const auto& [host, load] : hosts) {
    if (const int cores = CPU_COUNT(&load.cores); load.threads > cores) {
      self.warnings.push_back(fmt::format("{}: {} ranks with {} threads in all share {} cores", host,
                                          load.ranks, load.threads, cores));
    }
  }
}

std::string Runtime::banner() const {
  auto text = fmt::format("# {:>5}  {:<20} {:>8} {:>8} {:>12}  {}\n", "rank", "host", "process", "threads",
                          "of cores", "device");
  for (const auto& r : parts_->ranks) {
    text += fmt::format("# {:>5}  {:<20} {:>8} {:>8} {:>12}  {}\n", r.rank, r.host, r.pid, r.threads,
                        r.core_list, r.device);
  }
  return text;
}

std::vector<std::string> Runtime::warnings() const { return parts_->warnings; }

void Runtime::print_warnings() const {
  if (world().rank() != 0) return;
  for (const auto& warning : parts_->warnings) fmt::print(stderr, "taugrid: warning: {}\n", warning);
}

void Runtime::check_launcher() const {
  // mpirun inside an allocation may well start fewer ranks than the allocation holds.
  if (parts_->start.launched_by_mpirun) return;
  for (const auto* name : {"SLURM_NTASKS", "PMI_SIZE"}) {
    const char* text = std::getenv(name);
    if (text == nullptr) continue;
    if (const int expected = std::atoi(text); expected != parts_->world.size())
      throw InputError(
          fmt::format("the launcher was asked for {} ranks ({}) but MPI connects {}: start with `srun "
                      "--mpi=pmix` or Open MPI's mpirun",
                      expected, name, parts_->world.size()));
  }
}

}  // namespace taugrid::comm

/* The attachment book: who has the volume, and where (S3, S7, S9-S16, S18-S20; L1, L3).
 *
 * Tickets of several owners on two nodes; the attachment controller (decide.cc, roster.cc) and the volume controller
 * (table.cc, volume_open.cc, volume_close.cc) with views that may be old, every write a compare-and-swap of the objects
 * it edits; agents with incarnations; proofs. One Engine object, the plain life of docs/decisions/0200, no moves.
 * When World has ended no further fault comes: whoever then has nothing left to do must be at a proper end. */
#ifndef NT
#define NT 3     /* tickets that come or go */
#endif
#ifndef NK
#define NK 0     /* engine processes that die */
#endif
#ifndef ND
#define ND 0     /* nodes that die */
#endif
#ifndef NN
#define NN 0     /* nodes that are not Ready although they live */
#endif
#ifndef NF
#define NF 0     /* conflicts for no reason: a controller loses its view and looks again */
#endif
/* Three tickets; the id is the index, so a smaller one wins a tie. Node 0: none, a reservation. */
#ifndef BOOK
#define BOOK 1
#endif
#if BOOK == 1    /* two workloads of two owners on two nodes, and a snapshot on the first node */
#define NODE(t) (t == 0 -> 1 : (t == 1 -> 2 : 1))
#define OWNER(t) (t)
#define PRIO(t) (t == 2 -> 8 : 9)
#define YIELDS(t) (t == 2)
#define RESERVED 9
#endif
#if BOOK == 2    /* owner 0 has a workload and a reservation, owner 1 a workload elsewhere */
#define NODE(t) (t == 0 -> 1 : (t == 1 -> 2 : 0))
#define OWNER(t) (t == 2 -> 0 : t)
#define PRIO(t) 9
#define YIELDS(t) 0
#define RESERVED 2
#endif
#if BOOK == 3    /* a restore on node 1, a snapshot and a workload on node 2 */
#define NODE(t) (t == 0 -> 1 : 2)
#define OWNER(t) (t)
#define PRIO(t) (t == 0 -> 20 : (t == 1 -> 8 : 9))
#define YIELDS(t) (t == 1)
#define RESERVED 9
#endif
#define WORKLOAD(t) (PRIO(t) == 9)

#define DETACHED 0
#define ATTACHING 1
#define ATTACHED 2
#define DETACHING 3
#define RUN 1
#define STOP 2
#define ISTART 1
#define IRUN 2
#define IENDED 3
#define BOOT 1
#define SERVE 2

/* VolumeAttachment, Volume, Grant, Engine */
byte tk = 0; byte sat; byte arr[3]; byte clock_;
byte N; byte cur; byte state;
byte ga; byte gae; byte gai; byte gep;
byte en; byte des; byte est; byte ese;
/* controllers: what is decided and not yet written; acw: woken */
bit acp; byte an; byte asat; bit acw = 1; byte vcp; byte vn;
/* nodes (1, 2), agents and processes */
bit up[3] = 1; bit nr[3] = 1; byte inc[3]; byte rec[3]; byte aw[3]; byte ps[3]; byte pe[3];
byte nt; byte nk; byte nd; byte nn; byte nf; bit quiet; short used;

hidden byte i; hidden byte b; hidden byte out; hidden byte ws; hidden byte hold; hidden byte yield; hidden byte nw; hidden byte x; hidden byte att;

#ifdef REACH
#define LANDMARK(n) assert((n) != REACH)
#else
#define LANDMARK(n) skip
#endif
#define IN(m, t) ((m) & (1 << (t)))
#define CHOOSES(t) (IN(tk, t) && NODE(t))
#define BETTER(t, u) (u == 9 || PRIO(t) > PRIO(u) || (PRIO(t) == PRIO(u) && t < u))
#define ENDED ((est == IENDED && ese == gae && en == ga) || INC_PROOF)
#ifdef PLANT_INCARNATION
#define INC_PROOF (inc[ga] >= gai)
#else
#define INC_PROOF (inc[ga] > gai)
#endif
#ifdef PLANT_OLD_REPORT
#define PROOF ((est == IENDED && en == ga) || INC_PROOF)
#else
#define PROOF ENDED
#endif
#ifdef PLANT_NOT_TAKEN_UP
#define TAKEN_UP 1
#else
#define TAKEN_UP (!ga || ese == gae)
#endif

/* Compare-and-swap: what was decided on an older version of an object it edits comes to nothing. */
inline volume_changed() {
#ifndef PLANT_AC_NO_CAS
  acp = 0; an = 0; asat = 0;
#endif
#ifndef PLANT_NO_WAKE
  acw = 1
#endif
}
inline book_changed() { acp = 0; an = 0; asat = 0; acw = 1 }
inline grant_changed() { vcp = 0; vn = 0; acw = 1 }
inline engine_changed() { vcp = 0; vn = 0 }

/* ---- the attachment rules ---- */

/* who is kept away by the reservation: into out */
inline call_roll() {
  out = 0;
  if
  :: RESERVED < 3 && IN(tk, RESERVED) ->
    for (i : 0 .. 2) {
      if
      :: i != RESERVED && CHOOSES(i) && OWNER(i) != OWNER(RESERVED) &&
         (NODE(i) != N || (!IN(sat, i) && (IN(sat, RESERVED) || arr[i] > arr[RESERVED]))) -> out = out | (1 << i)
      :: else
      fi
    }
  :: else
  fi;
#ifdef PLANT_RESERVATION_IGNORED
  out = 0;
#endif
  skip
}

#define CAN_WIN(t) (CHOOSES(t) && !IN(out, t) && nr[NODE(t)])

inline review() {
  hold = 0; yield = 1; b = 9; x = 9;
  for (i : 0 .. 2) {
    if
    :: CHOOSES(i) && NODE(i) == N && !IN(out, i) -> hold = hold | (1 << i)
    :: else
    fi;
    if
    :: CHOOSES(i) && NODE(i) == N && !YIELDS(i) -> yield = 0
    :: else
    fi;
    if
    :: CAN_WIN(i) && NODE(i) != N && WORKLOAD(i) && BETTER(i, b) -> b = i
    :: else
    fi;
    if
    :: CAN_WIN(i) && NODE(i) != N && BETTER(i, x) -> x = i
    :: else
    fi
  }
#ifdef PLANT_PREEMPT_ANY
  yield = 1;
#endif
  if
  :: !hold -> nw = 0
  :: hold && yield && b != 9 -> nw = 0; LANDMARK(1);
    for (i : 0 .. 2) {
      assert(!(CHOOSES(i) && NODE(i) == N) || YIELDS(i)) /* S18 */
    }
  :: hold && !(yield && b != 9) && !cur && state != ATTACHED && !nr[N] && x != 9 -> nw = 0; LANDMARK(2)
  :: else
  fi
}

#ifdef PLANT_GATE
#define GATE (state == DETACHED || state == DETACHING)
#else
#define GATE (state == DETACHED && !cur && !ga)
#endif

inline choose() {
  b = 9;
  if
  :: GATE ->
    for (i : 0 .. 2) {
      if
      :: CAN_WIN(i) && BETTER(i, b) -> b = i
      :: else
      fi
    }
  :: else
  fi;
  if
  :: b != 9 -> nw = NODE(b);
    for (i : 0 .. 2) {
      assert(!CAN_WIN(i) || i == b || PRIO(i) < PRIO(b) || (PRIO(i) == PRIO(b) && i > b)) /* S19 */
    }
    assert(RESERVED > 2 || !IN(tk, RESERVED) || OWNER(b) == OWNER(RESERVED)) /* S20 */
  :: else
  fi
}

/* Statuses speak of the volume as the decision leaves it. */
inline judge() {
  ws = 0;
  att = (nw && state == ATTACHED && cur == nw && ga == nw);
#ifdef PLANT_SATISFIED_EARLY
  att = (nw != 0);
#endif
  hold = 0;
  for (i : 0 .. 2) {
    if
    :: CHOOSES(i) && NODE(i) == nw && nw && !IN(out, i) ->
      hold = hold | (1 << i);
      if
      :: att -> ws = ws | (1 << i)
      :: else
      fi
    :: else
    fi
  }
  if
  :: RESERVED < 3 && IN(tk, RESERVED) ->
    x = 0;
    for (i : 0 .. 2) {
      if
      :: IN(hold, i) && OWNER(i) != OWNER(RESERVED) -> x = 1
      :: else
      fi
    }
    if
    :: !x -> ws = ws | (1 << RESERVED); LANDMARK(3)
    :: else
    fi
  :: else
  fi
}

inline attachment_look() {
  acw = 0; nw = N;
  call_roll();
  if
  :: N -> review()
  :: else -> choose()
  fi;
#ifdef PLANT_WITHDRAW_FIRST
  if
  :: nw != N -> ws = sat /* the statuses at the next look */
  :: else -> judge()
  fi;
#else
  judge();
#endif
  if
  :: nw != N || ws != sat -> acp = 1; an = nw; asat = ws
  :: else
  fi;
  b = 0; out = 0; ws = 0; hold = 0; yield = 0; nw = 0; x = 0; att = 0
}

inline attachment_write() {
  assert(!N || !an || an == N); /* S9 */
  for (i : 0 .. 2) {
    if
    :: IN(asat, i) && !IN(sat, i) && NODE(i) -> assert(cur == NODE(i) && N == NODE(i) && an == N); LANDMARK(4) /* S15 */
    :: else
    fi
  }
  printf("AC: node %d -> %d, satisfied %d\n", N, an, asat);
  N = an; sat = asat; acp = 0; an = 0; asat = 0; acw = 1
}

/* ---- the volume controller ---- */

#define SERVES (ga == N && est == IRUN && ese == gae && des == RUN && inc[N] <= gai)
#define MUST_CLOSE (state == DETACHING || (state == ATTACHED && (N != cur || !N)) || (state == ATTACHING && (!N || cur)) || (state == DETACHED && (ga || cur)))

inline grant_epoch(n) {
  gep = gep + 1; ga = n; gae = gep; gai = inc[n]; en = n; des = RUN;
  printf("VC: epoch %d for node %d\n", gae, n);
  assert(gep < 15)
}

/* S12, S13: what is released is gone; S15: nobody is told that it still has it. */
inline release() {
  assert(ps[ga] == 0 || pe[ga] != gae);
  assert(aw[ga] != gae);
  for (i : 0 .. 2) {
    assert(!IN(sat, i) || NODE(i) != ga || !NODE(i))
  }
  printf("VC: node %d is released\n", ga);
  ga = 0; gae = 0; gai = 0
}

proctype Controllers() {
end: do
  :: d_step { acw && !acp -> attachment_look() }
  :: d_step { acp -> attachment_write() }
  :: d_step { !quiet && nf < NF && (acp || vcp) -> nf++; acp = 0; an = 0; asat = 0; acw = 1; vcp = 0; vn = 0 }
  /* the table */
  :: d_step { !vcp && N && !cur && state == DETACHED && !ga -> state = ATTACHING; volume_changed() }
  :: d_step { !vcp && MUST_CLOSE && state != DETACHING -> state = DETACHING; volume_changed(); printf("VC: detaching\n") }
  /* open: the epoch, its holder and the engine in one transaction; the Volume is only read */
  :: d_step { !vcp && N && !cur && state == ATTACHING && !ga && nr[N] -> vcp = 1; vn = N }
  :: d_step { vcp == 1 ->
#ifdef PLANT_GRANT_NO_CAS
      skip;
#else
      assert(!ga);
#endif
      grant_epoch(vn); grant_changed() }
  /* an engine that ended: the next epoch, counted in the Volume */
  :: d_step { !vcp && N && ga == N && ((state == ATTACHED && cur == N) || (state == ATTACHING && !cur)) && nr[N] && PROOF ->
      assert((ps[ga] == 0 || pe[ga] != gae) && aw[ga] != gae); grant_epoch(N); volume_changed(); grant_changed(); LANDMARK(5) }
  /* granted elsewhere by an old view: stopped */
  :: d_step { !vcp && N && !cur && state == ATTACHING && ga && ga != N && des == RUN && TAKEN_UP -> des = STOP; engine_changed(); LANDMARK(6) }
  :: d_step { !vcp && N && !cur && state == ATTACHING && ga && ga != N && PROOF -> release(); grant_changed() }
  :: d_step { !vcp && N && !cur && state == ATTACHING && SERVES -> state = ATTACHED; cur = N; volume_changed(); printf("VC: attached to %d\n", cur) }
  /* close */
  :: d_step { !vcp && MUST_CLOSE && des == RUN && TAKEN_UP -> vcp = 2 }
  :: d_step { vcp == 2 -> des = STOP; engine_changed() }
  :: d_step { !vcp && MUST_CLOSE && ga && PROOF -> release(); grant_changed() }
  :: d_step { !vcp && state == DETACHING && !ga ->
      assert(!ps[1] && !ps[2] && !aw[1] && !aw[2]); /* S10: cleared only when fully detached */
      state = DETACHED; cur = 0; volume_changed(); printf("VC: detached\n"); LANDMARK(7) }
  od
}

/* ---- an agent with its engine process ---- */

#define REPORT(n) (ps[n] == 0 -> (rec[n] == 0 -> 0 : IENDED) : (ps[n] == SERVE -> IRUN : ISTART))
#define REPORT_EPOCH(n) (ps[n] == 0 -> rec[n] : pe[n])

proctype Agent(byte n) {
end: do
  /* the Grant is read again; what follows may take any time */
  :: d_step { up[n] && !aw[n] && !ps[n] && en == n && des == RUN && ga == n && gai == inc[n] && gae > rec[n] -> aw[n] = gae; rec[n] = gae }
#ifdef PLANT_START_TWICE
  :: d_step { up[n] && !aw[n] && !ps[n] && en == n && des == RUN && ga == n && gai == inc[n] && gae == rec[n] -> aw[n] = gae }
#endif
  :: d_step { up[n] && aw[n] ->
      assert(!IN(used, aw[n])); used = used | (1 << aw[n]); /* S3 */
      assert(!ps[3 - n]); /* S7 */
      ps[n] = BOOT; pe[n] = aw[n]; aw[n] = 0; printf("agent %d starts epoch %d\n", n, pe[n]) }
  :: d_step { ps[n] == BOOT -> ps[n] = SERVE }
  :: d_step { up[n] && en == n && !aw[n] && (est != REPORT(n) || ese != REPORT_EPOCH(n)) && REPORT_EPOCH(n) >= ese ->
      est = REPORT(n); ese = REPORT_EPOCH(n); engine_changed() }
  /* stops, and what the Grant names no more */
  :: d_step { up[n] && ps[n] && ((en == n && des != RUN) || en != n || ga != n) -> ps[n] = 0; pe[n] = 0; printf("agent %d stops\n", n) }
  :: d_step { !quiet && nk < NK && ps[n] -> nk++; ps[n] = 0; pe[n] = 0; printf("the engine on %d dies\n", n) }
  :: d_step { !quiet && nd < ND && up[n] -> nd++; up[n] = 0; ps[n] = 0; pe[n] = 0; aw[n] = 0; printf("node %d dies\n", n) }
  :: d_step { !quiet && !up[n] && nr[n] -> nr[n] = 0; acw = 1 }
  :: d_step { !quiet && !up[n] -> up[n] = 1; nr[n] = 1; inc[n] = inc[n] + 1; acw = 1; printf("node %d returns\n", n) }
  :: d_step { !quiet && nn < NN && up[n] && nr[n] -> nn++; nr[n] = 0; acw = 1 }
  :: d_step { !quiet && up[n] && !nr[n] -> nr[n] = 1; acw = 1 }
  od
}

inline heal() {
  quiet = 1; acw = 1;
  for (i : 1 .. 2) {
    if
    :: !up[i] -> up[i] = 1; inc[i] = inc[i] + 1
    :: else
    fi;
    nr[i] = 1
  }
  printf("no further faults\n")
}

#define COMES(t) :: d_step { !quiet && nt < NT && !IN(tk, t) -> nt++; tk = tk | (1 << t); clock_++; arr[t] = clock_; book_changed(); printf("ticket %d comes\n", t) }
#define GOES(t) :: d_step { !quiet && nt < NT && IN(tk, t) -> nt++; tk = tk & ~(1 << t); sat = sat & ~(1 << t); arr[t] = 0; book_changed(); printf("ticket %d goes\n", t) }

#define WANTED(t) (CHOOSES(t) && (RESERVED > 2 || !IN(tk, RESERVED) || OWNER(t) == OWNER(RESERVED)))

proctype World() {
  do
  COMES(0)
  COMES(1)
  COMES(2)
  GOES(0)
  GOES(1)
  GOES(2)
  :: d_step { !quiet -> heal() }
  :: timeout -> break
  od;
  skip;
  d_step {
    printf("end: tickets %d satisfied %d, node %d current %d state %d, Grant %d/%d, engine %d desired %d status %d/%d\n", tk, sat, N, cur, state, ga, gae, en, des, est, ese);
    hold = 0;
    for (i : 0 .. 2) {
      if
      :: CHOOSES(i) && NODE(i) == cur -> hold = 1
      :: else
      fi
    }
    if
    :: !N -> /* L3: nobody has it, and nobody could (L1) */
      assert(state == DETACHED && !cur && !ga && !ps[1] && !ps[2]);
      for (i : 0 .. 2) {
        assert(!WANTED(i))
      }
    :: else -> assert(state == ATTACHED && cur == N && ga == N && ps[N] == SERVE && pe[N] == gae && !ps[3 - N] && hold); LANDMARK(8);
      for (i : 0 .. 2) { /* whoever asks for it there has it, unless it is kept for another owner */
        assert(!WANTED(i) || NODE(i) != N || IN(sat, i))
      }
    fi;
    hold = 0
  }
}

init { atomic { run Controllers(); run Agent(1); run Agent(2); run World() } }
